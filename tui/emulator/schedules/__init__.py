"""ScheduleService: pipeline jobs that are created repeatedly, at the times of a cron."""
