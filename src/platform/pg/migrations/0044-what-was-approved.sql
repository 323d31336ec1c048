-- A decision holds for what was shown. Of an approval, and of a step that runs a flow: the digest of what it was asked about
-- (SHA-256, hexadecimal). A rerun takes an answer of people over for an equal digest alone. Of a step that runs a flow: its
-- execution, in which people may have decided.
alter table tenon.execution_steps
  add column digest text check (digest ~ '^[0-9a-f]{64}$'),
  add column child text;
