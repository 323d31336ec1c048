-- Whether a version says how its input is: who starts it is refused what does not fit, before there is an execution. Of versions that
-- are there it is not known without reading them, so they are asked.
alter table tenon.flow_versions add column checks_input boolean not null default true;
