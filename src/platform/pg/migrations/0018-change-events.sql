-- What the relay needs to know of a change besides the change itself. It takes a tenant's rows by `seq`, which is drawn
-- while the document's row is locked: so the versions of one document, and what was written after something else was
-- acknowledged, keep their order. By transaction ids they would not, since a transaction has its id before its locks;
-- and a transaction that lasts, in whichever database of the server, would hold back everybody's changes.
alter table tenon.outbox
  drop column xid,
  -- The event's id, the same however often it is passed on.
  add column event_id uuid not null default gen_random_uuid(),
  -- Whether anon keys could read the collection when it was changed. Replayed later, when they may, it would show
  -- documents that they never might have seen.
  add column anon_reads boolean not null default false,
  -- Of the document as text, so that nobody unpacks more documents than he has room for.
  add column bytes integer not null default 0;

create function tenon.note_change() returns trigger language plpgsql as $$
begin
  new.bytes := coalesce(octet_length(new.document::text), 0);
  new.anon_reads := not exists (select from tenon.schemas s where s.tenant_id = new.tenant_id
    and s.workspace_id = new.workspace_id and s.collection = new.collection and not s.anon_reads);
  return new;
end $$;
create trigger note_change before insert on tenon.outbox for each row execute function tenon.note_change();

-- Tenants take turns: a million changes of one are not before the next one's first.
create index outbox_turns on tenon.outbox (tenant_id, seq);
