"""arr-coc: a vision-language model that selects the visual tokens that are relevant to the question.

Texture → three scorers → balance → a selection of 64 to 400 visual tokens → quality → a frozen Qwen3-VL. Only
the scorers, the balance, the quality and (in later stages) low-rank updates of the language model are
trained.
"""
