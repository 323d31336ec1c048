-- Serves builds from 0.1.0 on.
-- What live queries need to know of a change besides the document after it.
-- `before`: of an updated document what the change has replaced, if rules decide who may read it; else null. {"updated_at", "fields"}, and
-- `names` if only these fields were changed.
-- `created_at`: of a document that was updated or deleted; that of a new one is `at`.
alter table tenon.outbox add column before json, add column created_at timestamptz(3);
