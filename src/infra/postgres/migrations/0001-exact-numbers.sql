-- Serves builds from 0.1.0 on.
-- Exact numbers: the formats `decimal` and `int64` have canonical texts, too. All else of the function is as in collections.sql.
-- Older builds declare no field of these formats; they compare such fields as texts.

-- @returns the canonical text of a value, null if it does not have the format
-- Equal values have equal canonical texts, and code-point order is the order of values. canonical-text.ts (in schemas/)
-- computes the same for query literals and for documents outside PostgreSQL. Every write of a table with such a column runs
-- this, so it sets no search path, which would cost more than the rest; all names are of pg_catalog.
create or replace function tenon.canonical(format text, value text) returns text
  language plpgsql immutable strict parallel safe as $$
declare
  day date;
  behind text;
  fraction text;
  at bigint;
  digits text;
  key text;
begin
  -- The common case, UTC on days 1 to 28, as a single expression.
  if format = 'date-time' and value ~ '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])'
      'T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z$' then
    return lpad(((make_date(substr(value, 1, 4)::integer + 400, substr(value, 6, 2)::integer, substr(value, 9, 2)::integer)
          - date '0400-01-01' + 1)::bigint * 1440
        + substr(value, 12, 2)::integer * 60 + substr(value, 15, 2)::integer)::text, 10, '0')
      || substr(value, 18, 2) || rtrim(rtrim(rtrim(substr(value, 20), 'Z'), '0'), '.');
  end if;
  if format = 'uuid' then
    return case when value ~ '^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then lower(value collate "C") end;
  end if;
  -- The number is 0.digits times a power of ten: the sign, the exponent + 500, and the digits. For a negative one each digit is
  -- replaced by what it lacks to 9, and the end comes after all digits.
  if format in ('decimal', 'int64') then
    if length(value) > 100 or value !~ (case format when 'decimal' then '^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$'
        else '^-?(?:0|[1-9][0-9]{0,18})$' end) then
      return null;
    end if;
    if format = 'int64' and value::numeric not between -9223372036854775808 and 9223372036854775807 then
      return null;
    end if;
    digits := ltrim(translate(value, '-.', ''), '0');
    if digits = '' then
      return '1';
    end if;
    key := lpad((500 + length(split_part(ltrim(value, '-'), '.', 1)) + length(digits)
      - length(translate(value, '-.', '')))::text, 3, '0') || rtrim(digits, '0');
    return case when starts_with(value, '-') then '0' || translate(key, '0123456789', '9876543210') || ':' else '2' || key end;
  end if;
  -- Fields have fixed positions: substr is ten times as fast as capturing groups.
  if value !~ (case format
    when 'date' then '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$'
    when 'date-time' then '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])'
      '[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?'
      '(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])(?:\[.*\])?$' end) is not false then
    return null;
  end if;
  -- The calendar repeats every 400 years, and PostgreSQL has no year 0.
  day := make_date(substr(value, 1, 4)::integer + 400, substr(value, 6, 2)::integer, 1)
    + (substr(value, 9, 2)::integer - 1);
  if substr(value, 9, 2) > '28' and date_part('month', day) <> substr(value, 6, 2)::integer then
    return null;
  end if;
  if format = 'date' then
    return value;
  end if;
  behind := substr(value, 20);
  if starts_with(behind, '.') then
    behind := ltrim(substr(behind, 2), '0123456789');
    fraction := rtrim(substr(value, 20, length(value) - length(behind) - 19), '0');
  end if;
  at := (day - date '0400-01-01' + 1)::bigint * 1440 + substr(value, 12, 2)::integer * 60 + substr(value, 15, 2)::integer
    - case left(behind, 1)
      when '+' then substr(behind, 2, 2)::integer * 60 + substr(behind, 5, 2)::integer
      when '-' then -(substr(behind, 2, 2)::integer * 60 + substr(behind, 5, 2)::integer)
      else 0 end;
  if substr(value, 18, 2) = '60' and at % 1440 <> 1439 then
    return null;
  end if;
  return lpad(at::text, 10, '0') || substr(value, 18, 2) || coalesce(nullif(fraction, '.'), '');
end $$;
