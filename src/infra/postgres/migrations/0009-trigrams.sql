-- Serves builds from 0.1.0 on.
-- Indexes by which texts are found by similarity. Where the server has no such extension, or lets nobody but an administrator create it, the
-- platform refuses such declarations and says what to do.
do $$
begin
  create extension if not exists pg_trgm with schema public;
exception
  when undefined_file or insufficient_privilege or feature_not_supported or invalid_parameter_value then
    raise notice 'pg_trgm is not available: %', sqlerrm;
end $$;
