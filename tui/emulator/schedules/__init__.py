"""ScheduleService: pipeline jobs that are created again and again, at the times of a cron."""
