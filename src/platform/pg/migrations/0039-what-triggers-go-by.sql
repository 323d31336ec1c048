-- What a trigger lost when its stream dropped events that it had not heard yet: the last time that this came about.
alter table tenon.event_watches add column gap_from timestamptz(3), add column gap_to timestamptz(3);
grant update (gap_from, gap_to) on tenon.event_watches to tenon_triggers;

-- Of what an event has begun: how many runs led to it, for whoever starts it when the one who wrote the row has died.
alter table tenon.executions add column hops smallint;

-- Since when it goes on: what a schedule has kept for later from before that is not begun.
alter table tenon.tenants add column resumed_at timestamptz(3);
alter table tenon.workspaces add column resumed_at timestamptz(3);
