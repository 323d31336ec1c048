-- What the compiler found when the draft was written: reading a draft, or a list of them, compiles nothing.
alter table tenon.flows add column faults jsonb not null default '[]';
