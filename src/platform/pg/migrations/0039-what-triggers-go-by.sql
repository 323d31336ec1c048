-- Of what an event has begun: how many runs led to it, for whoever starts it when the one who wrote the row has died.
alter table tenon.executions add column hops smallint;
