"""Access control: the token's user may do everything except what settings or a fault deny."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from tui.emulator.kubernetes.api.request import Target
from tui.emulator.kubernetes.errors import BadRequest, FieldCause, Forbidden, Invalid, details_of
from tui.emulator.kubernetes.paths import CLUSTER
from tui.emulator.kubernetes.resources import VERBS, ApiResource, Obj
from tui.emulator.kubernetes.times import rfc3339

USER = {"username": CLUSTER, "groups": ["system:masters", "system:authenticated"]}
REVIEWS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
}
"""Group and plural of the review types, which store nothing."""


_KINDS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview", "subjectaccessreviews": "SubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview", "selfsubjectreviews": "SelfSubjectReview",
}  # fmt: skip


class AccessRules:
    """Decides whether requests are allowed. `denied` returns the current rules
    (`KubernetesConfig.denied`)."""

    def __init__(self, denied: Callable[[], Sequence[str]], resources: Sequence[ApiResource]) -> None:
        self._denied, self._resources = denied, resources

    def check(self, target: Target) -> None:
        """Raise Forbidden if the user may not make this request."""
        # Reviews of one's own access are always allowed.
        if not target.plural or (target.group, target.plural) in REVIEWS:
            return
        if self.allowed(target):
            return
        named = f'{target.qualified} "{target.name}"' if target.name else target.qualified
        where = f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
        raise Forbidden(
            f'{named} is forbidden: User "{CLUSTER}" cannot {target.verb} resource "{target.resource}" in '
            f'API group "{target.group}"{where}',
            details=details_of(target.name, target.group, target.plural),
        )

    def allowed(self, target: Target) -> bool:
        return not any(_denies(rule, target) for rule in self._denied())

    def review(self, plural: str, review: Obj) -> Obj:
        """Return the answer to a review of access or of the user. Raises BadRequest, Invalid."""
        kind = _KINDS[plural]
        sent_kind = review.get("kind") or kind
        if sent_kind != kind:
            raise BadRequest(f'{sent_kind} in version "v1" cannot be handled as a {kind}')
        review = {**review, "metadata": review.get("metadata") or {}}
        if plural == "selfsubjectreviews":
            review["metadata"] = {"creationTimestamp": rfc3339(datetime.now(UTC))}
            return {**review, "status": {"userInfo": USER}}
        spec = review.get("spec") or {}
        if plural == "selfsubjectrulesreviews":
            if not spec.get("namespace"):
                raise BadRequest("no namespace on request")
            return {**review, "status": self._rules(str(spec["namespace"]))}
        attributes, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (attributes is None) == (other is None):
            field = "resourceAttributes" if other is None else "nonResourceAttributes"
            why = (
                "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified"
            )
            cause = FieldCause(f"spec.{field}", why)
            details = {"group": "authorization.k8s.io", "causes": [cause.as_dict()]}
            raise Invalid(f'.authorization.k8s.io "" is invalid: {cause.field}: {why}', details=details)
        if attributes is None:
            return {**review, "status": {"allowed": True}}
        target = Target(
            "",
            str(attributes.get("verb") or ""),
            str(attributes.get("group") or ""),
            "",
            str(attributes.get("resource") or ""),
            str(attributes.get("namespace") or ""),
            str(attributes.get("name") or ""),
            str(attributes.get("subresource") or ""),
        )
        if plural == "subjectaccessreviews" and spec.get("user") not in {None, "", CLUSTER}:
            return {**review, "status": {"allowed": False, "reason": f"the only user is {CLUSTER}"}}
        allowed = self.allowed(target)
        return {
            **review,
            "status": {"allowed": allowed, **({} if allowed else {"reason": "denied by a rule"})},
        }

    def _rules(self, namespace: str) -> Obj:
        rules = []
        for resource in self._resources:
            for name in ("", *sorted(resource.subresources)):
                targets = {
                    verb: Target("", verb, resource.group, "", resource.plural, namespace, "", name)
                    for verb in VERBS
                }
                verbs = [verb for verb, target in targets.items() if self.allowed(target)]
                if verbs:
                    shown = f"{resource.plural}/{name}" if name else resource.plural
                    rules.append({"verbs": verbs, "apiGroups": [resource.group], "resources": [shown]})
        everywhere = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        return {"resourceRules": rules, "nonResourceRules": everywhere, "incomplete": False}


def _denies(rule: str, target: Target) -> bool:
    verb, resource, namespace = [*rule.split(), "*", "*"][:3]
    plural, _, subresource = resource.partition("/")
    if not fnmatchcase(target.verb, verb) or not fnmatchcase(target.namespace, namespace):
        return False
    if not fnmatchcase(target.subresource, subresource or ("*" if plural == "*" else "")):
        return False
    return fnmatchcase(target.plural, plural) or fnmatchcase(target.qualified, plural)
