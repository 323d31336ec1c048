-- An anon key reaches the workspace's identity at the object store only while the workspace has opened objects to it.
-- Which keys it then reads is checked by the platform: the store's identity covers the whole bucket.
drop policy data on tenon.storage_identities;
create policy service on tenon.storage_identities for select to tenon_service
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace());
create policy anon on tenon.storage_identities for select to tenon_anon
  using (tenant_id = tenon.tenant() and workspace_id = tenon.workspace()
    and exists (select from tenon.services s where s.tenant_id = tenon.tenant() and s.workspace_id = tenon.workspace()
      and s.anon ->> 'objects' = 'public' and s.public_read <> '[]'));
