-- Retention of hash chains: the audit log of a tenant, the log of calls of an MCP server. A chain is cut only at a checkpoint that
-- the platform has signed (chain-signer.ts): the last removed entry, from which verification goes on.

-- The last entry of each chain that retention has removed.
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
-- To sign them again.
call tenon.allow('tenon_key_rotation', 'tenon.chain_checkpoints', 'all', 'select, update (signature)');
-- For the functions below.
call tenon.allow('tenon_owner', 'tenon.chain_checkpoints', 'whole tenant');
call tenon.allow('tenon_owner', 'tenon.audit', 'whole tenant');
create trigger forbid_rewrite before delete or truncate on tenon.chain_checkpoints
  for each statement when (current_user <> 'tenon_purger') execute function tenon.forbid_update();
create trigger forbid_rewind before update on tenon.chain_checkpoints for each row
  when (new.seq < old.seq or (new.seq = old.seq and new.hash <> old.hash) or (new.tenant_id, new.workspace_id, new.chain) <> (old.tenant_id, old.workspace_id, old.chain))
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
  for each statement when (current_user <> 'tenon_purger') execute function tenon.forbid_removal();
create trigger forbid_removal after delete on tenon.mcp_calls referencing old table as gone
  for each statement when (current_user <> 'tenon_purger') execute function tenon.forbid_removal();

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

-- The next entries of a chain, in the order of their numbers, for the worker, which verifies them before it cuts (chain-rule.ts).
-- @param log the table: 'audit' or 'mcp_calls' @param after the number after which they follow
create function tenon.chain_entries(log text, t text, w text, c text, after bigint, entries_max integer)
  returns table (seq bigint, entry text, prev_hash text, hash text, copied jsonb)
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  settings constant text[] := act_for_workspace(t, w);
begin
  return query execute format('
    select seq, entry, encode(prev_hash, ''hex''), encode(hash, ''hex''), copied(%1$I)
    from %1$I where %2$s and seq > $4 order by seq limit $5', log, is_in_chain(log)) using t, w, c, after, entries_max;
  perform act_for_workspace(settings[1], settings[2]);
end $$;

-- Moves the checkpoint of a chain from entry `base` to entry `last`, and deletes what is between them. The caller has verified these
-- entries; if others are there now, nothing is removed.
create function tenon.cut_chain(log text, t text, w text, c text, base bigint, last bigint, last_hash text, signed text) returns void
  language plpgsql security definer set search_path = tenon, pg_temp as $$
declare
  settings constant text[] := act_for_workspace(t, w);
  stands bigint;
  n bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended(concat_ws('/', log, t, w, c), 12));
  select coalesce(max(k.seq), 0) into strict stands
    from chain_checkpoints k where k.tenant_id = t and k.workspace_id = w and k.chain = c;
  if stands <> base then
    raise exception 'the chain % of % % was cut at entry % meanwhile', c, t, w, stands using errcode = 'serialization_failure';
  end if;
  insert into chain_checkpoints values (t, w, c, last, decode(last_hash, 'hex'), signed)
    on conflict (tenant_id, workspace_id, chain)
    do update set seq = excluded.seq, hash = excluded.hash, signature = excluded.signature;
  execute format('
    with gone as (delete from %I where %s and seq <= $4 returning seq, hash)
    select count(*) from gone where exists (select from gone where seq = $4 and hash = decode($5, ''hex''))',
    log, is_in_chain(log)) into n using t, w, c, last, last_hash;
  if n <> last - base then
    raise exception 'the chain % of % % has changed up to entry %: nothing is removed', c, t, w, last
      using errcode = 'data_corrupted';
  end if;
  perform act_for_workspace(settings[1], settings[2]);
end $$;
revoke execute on function tenon.copied(tenon.audit), tenon.copied(tenon.mcp_calls), tenon.is_in_chain,
  tenon.chain_entries, tenon.cut_chain from public;
-- For verification.
grant execute on function tenon.copied(tenon.audit), tenon.copied(tenon.mcp_calls) to tenon_admin, tenon_operator;
grant execute on function tenon.chain_entries, tenon.cut_chain to tenon_reconciler;

-- The reconciler finds the chains whose turn it is, and their checkpoints.
call tenon.allow('tenon_reconciler', 'tenon.chain_checkpoints', 'all', 'select');
call tenon.allow('tenon_reconciler', 'tenon.audit_heads', 'all',
  'select (tenant_id, retention_due_at), update (retention_due_at)');
call tenon.allow('tenon_reconciler', 'tenon.mcp_call_heads', 'all',
  'select (tenant_id, workspace_id, server_id, retention_due_at), update (retention_due_at)');
create index audit_heads_retention on tenon.audit_heads (retention_due_at);
create index mcp_call_heads_retention on tenon.mcp_call_heads (retention_due_at);
