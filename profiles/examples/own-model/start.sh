# exec: a preemption's SIGTERM reaches the trainer itself.
exec python3 -m trainer.task --model=spirals:build "$@"
