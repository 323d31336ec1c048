-- Serves builds from 0.1.0 on.
-- Collections that are renamed. Older builds read the name of a declaration anew once they do not find its table.
grant update (collection) on tenon.schemas to tenon_tables;
