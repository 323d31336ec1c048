-- Serves builds from 0.1.0 on.
-- Search in collections. Row-level security lets PostgreSQL use an index for a condition only if it is leakproof: if it raises no error and
-- tells nothing of a row that the policy may hide. The conditions of searches are so, but PostgreSQL does not mark them. So there are
-- operators of the platform over the same functions, marked. Only a superuser may make them; without them searches are right and slow.
-- They have names of their own, since the schema is on the search path of the platform, where it would hide those of PostgreSQL.

-- The size of a document: its JSON text as stored, without the columns of the platform, of which `search` holds the words of a document.
create or replace function tenon.document_bytes(stored jsonb) returns bigint immutable parallel safe language sql
  return octet_length(
    (stored - '{tenant_id,workspace_id,collection,id,version,created_at,updated_at,search}'::text[])::text);

-- Makes the operators and operator classes that are missing. A superuser calls it, the migration if it is one; it may be repeated.
create procedure tenon.make_search_operators() language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if to_regprocedure('tenon.matches_words(tsvector, tsquery)') is null then
    create function tenon.matches_words(tsvector, tsquery) returns boolean
      immutable strict parallel safe leakproof language internal as 'ts_match_vq';
    create operator tenon.=@@ (leftarg = tsvector, rightarg = tsquery, function = tenon.matches_words,
      restrict = tsmatchsel, join = tsmatchjoinsel);
    create operator class tenon.words_ops for type tsvector using gin as
      operator 1 tenon.=@@ (tsvector, tsquery),
      function 1 gin_cmp_tslexeme(text, text),
      function 2 gin_extract_tsvector(tsvector, internal, internal),
      function 3 gin_extract_tsquery(tsvector, internal, smallint, internal, internal, internal, internal),
      function 4 gin_tsquery_consistent(internal, smallint, tsvector, integer, internal, internal, internal, internal),
      function 5 gin_cmp_prefix(text, text, smallint, internal),
      function 6 gin_tsquery_triconsistent(internal, smallint, tsvector, integer, internal, internal, internal),
      storage text;

    create function tenon.contains_json(jsonb, jsonb) returns boolean
      immutable strict parallel safe leakproof language internal as 'jsonb_contains';
    create operator tenon.=@> (leftarg = jsonb, rightarg = jsonb, function = tenon.contains_json,
      restrict = matchingsel, join = matchingjoinsel);
    create operator class tenon.json_ops for type jsonb using gin as
      operator 7 tenon.=@> (jsonb, jsonb),
      function 1 btint4cmp(integer, integer),
      function 2 gin_extract_jsonb_path(jsonb, internal, internal),
      function 3 gin_extract_jsonb_query_path(jsonb, internal, smallint, internal, internal, internal, internal),
      function 4 gin_consistent_jsonb_path(internal, smallint, jsonb, integer, internal, internal, internal, internal),
      function 6 gin_triconsistent_jsonb_path(internal, smallint, jsonb, integer, internal, internal, internal),
      storage integer;

    alter function tenon.matches_words owner to tenon_owner;
    alter function tenon.contains_json owner to tenon_owner;
    alter operator tenon.=@@ (tsvector, tsquery) owner to tenon_owner;
    alter operator tenon.=@> (jsonb, jsonb) owner to tenon_owner;
    alter operator class tenon.words_ops using gin owner to tenon_owner;
    alter operator class tenon.json_ops using gin owner to tenon_owner;
    alter operator family tenon.words_ops using gin owner to tenon_owner;
    alter operator family tenon.json_ops using gin owner to tenon_owner;
    revoke execute on function tenon.matches_words, tenon.contains_json from public;
    grant execute on function tenon.matches_words, tenon.contains_json
      to tenon_anon, tenon_user, tenon_service, tenon_owner, tenon_tables;
  end if;
  -- A pattern raises an error only if it ends with a backslash alone, which no statement of the platform has.
  if to_regtype('public.gtrgm') is not null and to_regprocedure('tenon.matches_pattern(text, text)') is null then
    create function tenon.matches_pattern(text, text) returns boolean
      immutable strict parallel safe leakproof language internal as 'textlike';
    -- An index of trigrams finds texts without regard to case only if both sides are folded before they are cut into words.
    create function tenon.folded(text) returns text
      immutable strict parallel safe leakproof language internal as 'lower';
    create operator tenon.=~~ (leftarg = text, rightarg = text, function = tenon.matches_pattern,
      restrict = likesel, join = likejoinsel);
    create operator class tenon.patterns_ops for type text using gist as
      operator 3 tenon.=~~ (text, text),
      operator 8 public.<->> (text, text) for order by pg_catalog.float_ops,
      function 1 public.gtrgm_consistent(internal, text, smallint, oid, internal),
      function 2 public.gtrgm_union(internal, internal),
      function 3 public.gtrgm_compress(internal),
      function 4 public.gtrgm_decompress(internal),
      function 5 public.gtrgm_penalty(internal, internal, internal),
      function 6 public.gtrgm_picksplit(internal, internal),
      function 7 public.gtrgm_same(public.gtrgm, public.gtrgm, internal),
      function 8 public.gtrgm_distance(internal, text, smallint, oid, internal),
      function 10 (text, text) public.gtrgm_options(internal),
      storage public.gtrgm;
    alter function tenon.matches_pattern owner to tenon_owner;
    alter function tenon.folded owner to tenon_owner;
    alter operator tenon.=~~ (text, text) owner to tenon_owner;
    alter operator class tenon.patterns_ops using gist owner to tenon_owner;
    alter operator family tenon.patterns_ops using gist owner to tenon_owner;
    revoke execute on function tenon.matches_pattern, tenon.folded from public;
    grant execute on function tenon.matches_pattern, tenon.folded
      to tenon_anon, tenon_user, tenon_service, tenon_owner, tenon_tables;
  end if;
end $$;
revoke execute on procedure tenon.make_search_operators from public;

-- As the role of the migration, which may be a superuser; the owner of the schema is none.
do $$
begin
  if (select rolsuper from pg_roles where rolname = session_user) then
    set local role none;
    call tenon.make_search_operators();
    set local role tenon_owner;
  end if;
end $$;
