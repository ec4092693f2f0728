"""arr-coc: a vision-language model that spends its visual tokens where they matter to the question.

Texture → three scorers → balance → a choice of 64 to 400 visual tokens → quality → a frozen Qwen3-VL. Only
the scorers, the balance, the quality and (in later stages) low-rank updates of the language model learn.
"""

from trainer.models.arr_coc.model import STAGES, ArrCoc

__all__ = ["STAGES", "ArrCoc"]
