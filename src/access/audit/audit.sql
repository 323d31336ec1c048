-- The audit log: one row per entry, in a hash chain per tenant. The chain '-' holds entries without a tenant.
create table tenon.audit (
  tenant_id text not null,
  seq bigint not null check (seq > 0),
  -- Canonical JSON, stored as the text that is hashed.
  entry text not null,
  prev_hash bytea not null check (octet_length(prev_hash) = 32),
  hash bytea not null check (octet_length(hash) = 32),
  -- Copied from the entry for the policy below; verification compares both.
  workspace_id text,
  primary key (tenant_id, seq)
);
call tenon.allow('tenon_operator', 'tenon.audit', 'all', 'select');
call tenon.allow('tenon_admin', 'tenon.audit', 'tenant', 'select');

-- The head of each chain: it serialises appends, and lets verification detect a truncated chain.
create table tenon.audit_heads (
  tenant_id text primary key,
  seq bigint not null,
  hash bytea not null check (octet_length(hash) = 32),
  -- When retention looks at the chain next.
  retention_due_at timestamptz(3) not null default now()
) with (fillfactor = 50);
call tenon.allow('tenon_operator', 'tenon.audit_heads', 'all', 'select');
-- Workspace admins do not see whole chains, so the head would only reveal the activity of others.
create policy admin on tenon.audit_heads for select to tenon_admin
  using (tenant_id = tenon.tenant() and tenon.workspace() is null);
grant select on tenon.audit_heads to tenon_admin;
-- The owner never logs in; it appends only through the function below.
create policy append on tenon.audit for insert to tenon_owner with check (true);
create policy append on tenon.audit_heads to tenon_owner using (true) with check (true);

-- For tables that are only appended to. A purge deletes them with their tenant (purge.sql).
create function tenon.forbid_update() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
begin
  raise exception 'the table % is only appended to', tg_table_name using errcode = 'insufficient_privilege';
end $$;
-- Retention deletes old entries (checkpoints.sql).
create trigger forbid_rewrite before update or truncate on tenon.audit
  for each statement execute function tenon.forbid_update();
create trigger forbid_rewrite before delete or truncate on tenon.audit_heads
  for each statement when (current_user <> 'tenon_purger') execute function tenon.forbid_update();
create trigger forbid_rewind before update of tenant_id, seq, hash on tenon.audit_heads
  for each row when (new.seq <= old.seq or new.tenant_id <> old.tenant_id)
  execute function tenon.forbid_update();

-- SHA-256 of three lines: the previous hash in hexadecimal, the number, the entry, without a trailing line feed.
create function tenon.audit_hash(prev_hash bytea, seq bigint, entry text) returns bytea
  language sql immutable parallel safe
  return sha256(convert_to(encode(prev_hash, 'hex') || E'\n' || seq || E'\n' || entry, 'UTF8'));

-- Hashes of entries that follow entry number `base`, whose hash is `last`; the first of them is `last` itself.
create function tenon.chain_hashes(last bytea, base bigint, entries text[]) returns bytea[]
  language plpgsql immutable parallel safe set search_path = tenon, pg_temp as $$
declare
  hashes bytea[] := array[last];
begin
  for i in 1 .. cardinality(entries) loop
    hashes := hashes || audit_hash(hashes[i], base + i, entries[i]);
  end loop;
  return hashes;
end $$;

-- Appends entries[i] to chain chains[i], in order; an empty workspace means none. Concurrent appends to a chain are
-- serialised by the row lock of its head; several heads are locked in one order.
create function tenon.append_audit(chains text[], workspaces text[], entries text[]) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  chain text;
  lines text[];
  workspace_ids text[];
  base bigint;
  n integer;
  last bytea;
  hashes bytea[];
begin
  for chain in select distinct c collate "C" from unnest(chains) as u (c) order by 1 loop
    insert into audit_heads (tenant_id, seq, hash) values (chain, 0, decode(repeat('00', 32), 'hex')) on conflict do nothing;
    select seq, hash into strict base, last from audit_heads h where h.tenant_id = chain for no key update;
    select array_agg(e order by i), array_agg(nullif(w, '') order by i) into lines, workspace_ids
      from unnest(chains, workspaces, entries) with ordinality as u (c, w, e, i) where c = chain;
    hashes := chain_hashes(last, base, lines);
    n := cardinality(lines);
    insert into audit (tenant_id, seq, entry, prev_hash, hash, workspace_id)
      select chain, base + i, e, hashes[i], hashes[i + 1], w
      from unnest(lines, workspace_ids) with ordinality as u (e, w, i);
    update audit_heads h set seq = base + n, hash = hashes[n + 1] where h.tenant_id = chain;
  end loop;
end $$;
revoke execute on function tenon.append_audit from public;
grant execute on function tenon.append_audit to tenon_operator;
