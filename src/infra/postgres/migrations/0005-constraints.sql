-- Serves builds from 0.1.0 on.
-- Constraints of declarations: checks of each document, and ranges of documents that do not overlap. Older builds know neither; they take a unique
-- index with a condition for one without when they change its declaration.

alter table tenon.schemas
  -- [{"name": "ends_after_start", "check": {"ends_at": {"gt": {"$field": "starts_at"}}}, "message": "…"}, …]
  add column checks jsonb not null default '[]',
  -- [{"name": "x1", "fields": ["court_id"], "range": ["starts_at", "ends_at"], "columns": ["c1", "c2", …]}, …]
  add column exclusions jsonb not null default '[]';
grant update (checks, exclusions) on tenon.schemas to tenon_tables;

-- Refuses a row under the condition of the trigger, which is the opposite of a check, under the name of the trigger.
create function tenon.refuse_check() returns trigger
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'the document breaks a check of its collection'
    using errcode = 'check_violation', constraint = tg_name, table = tg_table_name;
end $$;
revoke execute on function tenon.refuse_check from public;
grant execute on function tenon.refuse_check to tenon_tables;

-- Equality of scalars in the indexes of ranges. Where the server has no such extension, or lets nobody but an administrator create it, the platform
-- refuses such declarations and says what to do.
do $$
begin
  create extension if not exists btree_gist with schema public;
exception
  when undefined_file or insufficient_privilege or feature_not_supported or invalid_parameter_value then
    raise notice 'btree_gist is not available: %', sqlerrm;
end $$;
