-- Makes Temporal's role and its two databases. Runs as the superuser at each start; idempotent. The password is TEMPORAL_PASSWORD.
\set ON_ERROR_STOP on
\getenv password TEMPORAL_PASSWORD
select 'create role temporal login' where not exists (select from pg_roles where rolname = 'temporal') \gexec
alter role temporal nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'password';
select format('create database %I owner temporal', name)
from (values ('temporal'), ('temporal_visibility')) as wanted (name)
where not exists (select from pg_database where datname = name) \gexec
