-- Serves builds from 0.1.0 on.
-- `production` unless somebody says otherwise: it is the one that tools refuse to change by every save of a file, and a workspace that nobody
-- has marked may be the one with the customers. Older builds make such workspaces.
alter table tenon.workspaces add column environment text not null default 'production'
  constraint workspaces_environment check (environment in ('development', 'production'));
