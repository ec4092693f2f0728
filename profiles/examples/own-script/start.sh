# exec, so that a preemption's SIGTERM reaches the launcher itself.
exec python3 -m trainer.launch train.py "$@"
