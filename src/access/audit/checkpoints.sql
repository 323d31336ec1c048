-- Retention of hash chains: the audit log of a tenant, the log of calls of an MCP server. A chain is cut only at a checkpoint that
-- the platform has signed (chain-signer.ts): the last removed entry, from which verification goes on.

-- What retention has removed of each chain.
create table tenon.chain_checkpoints (
  tenant_id text not null,
  -- Empty for the audit log.
  workspace_id text not null,
  -- `audit`, or the id of the MCP server.
  chain text not null,
  -- The last entry that was removed.
  seq bigint not null check (seq > 0),
  hash bytea not null check (octet_length(hash) = 32),
  -- Compact JWS about the chain, the entry, and when it was signed.
  signature text not null,
  primary key (tenant_id, workspace_id, chain)
);
call tenon.allow('tenon_operator', 'tenon.chain_checkpoints', 'all', 'select');
call tenon.allow('tenon_admin', 'tenon.chain_checkpoints', 'tenant', 'select');
-- For the functions below.
call tenon.allow('tenon_owner', 'tenon.chain_checkpoints', 'whole tenant');
call tenon.allow('tenon_owner', 'tenon.audit', 'whole tenant');
create trigger forbid_rewrite before delete or truncate on tenon.chain_checkpoints
  for each statement execute function tenon.forbid_update();
create trigger forbid_rewind before update on tenon.chain_checkpoints for each row
  when (new.seq <= old.seq or (new.tenant_id, new.workspace_id, new.chain) <> (old.tenant_id, old.workspace_id, old.chain))
  execute function tenon.forbid_update();

-- Refuses to delete entries that no checkpoint covers.
create function tenon.forbid_removal() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
begin
  if exists (
    select from gone g cross join lateral (select to_jsonb(g) ->> 'server_id' as server) of
    where not exists (select from chain_checkpoints k where k.tenant_id = g.tenant_id and k.seq >= g.seq
      and k.workspace_id = case when server is null then '' else g.workspace_id end and k.chain = coalesce(server, 'audit'))
  ) then
    raise exception 'the table % is only appended to', tg_table_name using errcode = 'insufficient_privilege';
  end if;
  return null;
end $$;
revoke execute on function tenon.forbid_removal from public;
create trigger forbid_removal after delete on tenon.audit referencing old table as gone
  for each statement execute function tenon.forbid_removal();
create trigger forbid_removal after delete on tenon.mcp_calls referencing old table as gone
  for each statement execute function tenon.forbid_removal();

-- The members of an entry that have a column of their own.
create function tenon.copied(entry tenon.audit) returns jsonb language sql stable parallel safe
  return jsonb_build_object('tenant_id', entry.tenant_id, 'workspace_id', entry.workspace_id);
create function tenon.copied(call tenon.mcp_calls) returns jsonb language sql stable parallel safe
  return jsonb_build_object('tenant_id', call.tenant_id, 'workspace_id', call.workspace_id, 'server_id', call.server_id,
    'time', call.time, 'tool', call.tool, 'outcome', call.outcome, 'principal', call.principal, 'client_id', call.client_id);

-- The condition on the rows of a chain, for dynamic statements with tenant, workspace and chain as their first parameters.
create function tenon.is_in_chain(log text) returns text language sql immutable
  return case log when 'audit' then 'tenant_id = $1 and $2 = '''' and $3 = ''audit'''
    when 'mcp_calls' then 'tenant_id = $1 and workspace_id = $2 and server_id = $3' end;

-- The checkpoint of a chain (`base`; 0 if it has none), and the last of its next entries that are all older than a time. No row if
-- the first one is younger.
-- @param log the table: 'audit' or 'mcp_calls'
create function tenon.expired_entries(log text, t text, w text, c text, before timestamptz, entries_max integer)
  returns table (base bigint, base_hash text, signature text, seq bigint, hash text)
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  settings constant text[] := act_for_workspace(t, w);
begin
  select k.seq, encode(k.hash, 'hex'), k.signature into base, base_hash, signature
    from chain_checkpoints k where k.tenant_id = t and k.workspace_id = w and k.chain = c;
  base := coalesce(base, 0);
  execute format('
    with recursive oldest as (select seq, hash, entry from %1$I where %2$s and seq > $4 order by seq limit 1),
    expired as (
      select seq, hash, 1 as n from oldest where (entry::json ->> %3$L)::timestamptz < $5
      union all
      select next.seq, next.hash, n + 1 from expired e cross join lateral (
        select seq, hash, entry from %1$I where %2$s and seq > e.seq order by seq limit 1) next
      where n < $6 and (next.entry::json ->> %3$L)::timestamptz < $5
    )
    select seq, encode(hash, ''hex'') from expired order by seq desc limit 1',
    log, is_in_chain(log), case log when 'audit' then 'at' else 'time' end)
    into seq, hash using t, w, c, base, before, entries_max;
  perform act_for_workspace(settings[1], settings[2]);
  if seq is not null then
    return next;
  end if;
end $$;

-- Sets the checkpoint of a chain and deletes the entries up to it, unless one of them was changed or is missing: retention removes
-- no evidence. @returns how many were deleted
create function tenon.cut_chain(log text, t text, w text, c text, last bigint, last_hash text, signed text) returns bigint
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  settings constant text[] := act_for_workspace(t, w);
  base record;
  fault bigint;
  final text;
  n bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended(concat_ws('/', log, t, w, c), 12));
  select coalesce(max(k.seq), 0) as seq, decode(coalesce(max(encode(k.hash, 'hex')), repeat('00', 32)), 'hex') as hash
    into strict base from chain_checkpoints k where k.tenant_id = t and k.workspace_id = w and k.chain = c;
  execute format('
    select min(seq) filter (where seq <> seq_before + 1 or prev_hash <> hash_before
        or hash <> audit_hash(prev_hash, seq, entry) or not entry::jsonb @> copied_members),
      max(encode(hash, ''hex'')) filter (where seq = $6)
    from (select seq, entry, prev_hash, hash, copied(%1$I) as copied_members,
        lag(seq, 1, $4) over (order by seq) as seq_before, lag(hash, 1, $5) over (order by seq) as hash_before
      from %1$I where %2$s and seq > $4 and seq <= $6) part', log, is_in_chain(log))
    into fault, final using t, w, c, base.seq, base.hash, last;
  if fault is not null or final is distinct from last_hash then
    raise exception 'the chain % of % % is broken at entry %: nothing is removed', c, t, w, coalesce(fault, last)
      using errcode = 'data_corrupted';
  end if;
  insert into chain_checkpoints values (t, w, c, last, decode(final, 'hex'), signed)
    on conflict (tenant_id, workspace_id, chain)
    do update set seq = excluded.seq, hash = excluded.hash, signature = excluded.signature;
  execute format('delete from %I where %s and seq <= $4', log, is_in_chain(log)) using t, w, c, last;
  get diagnostics n = row_count;
  perform act_for_workspace(settings[1], settings[2]);
  return n;
end $$;
revoke execute on function tenon.copied(tenon.audit), tenon.copied(tenon.mcp_calls), tenon.is_in_chain,
  tenon.expired_entries, tenon.cut_chain from public;
-- For verification.
grant execute on function tenon.copied(tenon.audit), tenon.copied(tenon.mcp_calls) to tenon_admin, tenon_operator;
grant execute on function tenon.expired_entries, tenon.cut_chain to tenon_reconciler;

-- The reconciler finds the chains whose turn it is, and sees nothing of their entries.
call tenon.allow('tenon_reconciler', 'tenon.audit_heads', 'all',
  'select (tenant_id, retention_due_at), update (retention_due_at)');
call tenon.allow('tenon_reconciler', 'tenon.mcp_call_heads', 'all',
  'select (tenant_id, workspace_id, server_id, retention_due_at), update (retention_due_at)');
create index audit_heads_retention on tenon.audit_heads (retention_due_at);
create index mcp_call_heads_retention on tenon.mcp_call_heads (retention_due_at);
