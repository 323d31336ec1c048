-- A branch that loses a race, or a run that is cancelled, leaves steps that neither ended nor failed.
alter table tenon.execution_steps drop constraint execution_steps_status_check;
alter table tenon.execution_steps add constraint execution_steps_status_check
  check (status in ('running', 'completed', 'faulted', 'skipped', 'cancelled'));
