-- Why somebody has paused an execution.
alter table tenon.executions add column pause_reason text;

-- What a rerun takes over: where in the run a step stands, whatever ended first; whether its answer was too large to be
-- kept; and in the new run, whether it was taken over. Steps from before have no place.
alter table tenon.execution_steps
  add column place text,
  add column cut boolean not null default false,
  add column reused boolean not null default false;
