-- A person's tokens name the generation of her account that they were given in. Whoever is disabled, or sets another
-- password, begins a new one: what was given before stays dead, also when she is enabled again.
alter table tenon.accounts add column generation integer not null default 0;

create function tenon.begin_generation() returns trigger language plpgsql set search_path = tenon, pg_temp as $$
begin
  new.generation := old.generation + 1;
  return new;
end $$;
create trigger generations before update of password, disabled_at on tenon.accounts for each row
  when (old.disabled_at is distinct from new.disabled_at or old.password is distinct from new.password)
  execute function tenon.begin_generation();
