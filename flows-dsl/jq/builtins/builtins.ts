/** Lists all builtins by name and arity: functions of values, filters, and definitions in jq. */

import { spend } from '../../budget.ts'
import { fieldOf } from '../../json.ts'
import { type FilterBuiltins, NULL, oneValue, type ValueBuiltins } from '../filter.ts'
import { ARRAYS, SELECTIONS } from './collections.ts'
import { DATES } from './dates.ts'
import { MATH } from './math.ts'
import { STREAMS } from './streams.ts'
import { STRINGS } from './strings.ts'
import { TYPE_CONVERSIONS } from './type-conversion.ts'

export const VALUES: ValueBuiltins = { ...TYPE_CONVERSIONS, ...ARRAYS, ...STRINGS, ...MATH, ...DATES }

export const FILTERS: FilterBuiltins = {
  ...STREAMS,
  ...SELECTIONS,
  'builtins/0': () =>
    oneValue(({ budget }) => {
      spend(budget, BUILTIN_NAMES.length)
      return BUILTIN_NAMES.filter((name) => !name.startsWith('_'))
    }),
}

/** Definitions in jq, from its own builtin.jq. Each is parsed at its first use. */
export const PRELUDE: Readonly<Record<string, string>> = {
  'error/1': 'def error(msg): msg | error;',
  'map_values/1': 'def map_values(f): .[] |= f;',
  'recurse/1': 'def recurse(f): def r: ., (f | r); r;',
  'recurse/2': 'def recurse(f; cond): def r: ., (f | select(cond) | r); r;',
  'recurse_down/0': 'def recurse_down: recurse;',
  'from_entries/0': `def from_entries: reduce .[] as $x ({}; . + ($x
    | {(.key // .k // .Key // .K // .name // .Name): (if has("value") then .value elif has("v") then .v else .Value end)}));`,
  'transpose/0': 'def transpose: [range(0; map(length) | max // 0) as $i | [.[][$i]]];',
  'with_entries/1': 'def with_entries(f): to_entries | map(f) | from_entries;',
  'paths/0': 'def paths: path(recurse) | select(length > 0);',
  'paths/1': 'def paths(node_filter): path(recurse | select(node_filter)) | select(length > 0);',
  'leaf_paths/0': 'def leaf_paths: paths(scalars);',
  'arrays/0': 'def arrays: select(type == "array");',
  'objects/0': 'def objects: select(type == "object");',
  'iterables/0': 'def iterables: select(type | . == "array" or . == "object");',
  'booleans/0': 'def booleans: select(type == "boolean");',
  'numbers/0': 'def numbers: select(type == "number");',
  'normals/0': 'def normals: select(isnormal);',
  'finites/0': 'def finites: select(isfinite);',
  'strings/0': 'def strings: select(type == "string");',
  'nulls/0': 'def nulls: select(. == null);',
  'values/0': 'def values: select(. != null);',
  'scalars/0': 'def scalars: select(type | . != "array" and . != "object");',
  'in/1': 'def in(xs): . as $x | xs | has($x);',
  'inside/1': 'def inside(xs): . as $x | xs | contains($x);',
  'while/2': 'def while(cond; update): def w: if cond then ., (update | w) else empty end; w;',
  'until/2': 'def until(cond; next): def u: if cond then . else (next | u) end; u;',
  'repeat/1': 'def repeat(f): def r: f, r; r;',
  'first/0': 'def first: .[0];',
  'last/0': 'def last: .[-1];',
  'nth/1': 'def nth($n): .[$n];',
  'combinations/0': `def combinations: if length == 0 then [] else
    .[0][] as $x | (.[1:] | combinations) as $y | [$x] + $y end;`,
  'combinations/1': 'def combinations(n): . as $dot | [range(n) | $dot] | combinations;',
  'pick/1': 'def pick(f): . as $in | reduce path(f) as $p (null; setpath($p; $in | getpath($p)));',
  'tostream/0': `def tostream: path(def r: (.[]? | r), .; r) as $p | getpath($p)
    | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);`,
  'fromstream/1': `def fromstream(i): {x: null, e: false} as $init | foreach i as $i ($init;
    if .e then $init else . end
    | if $i | length == 2 then setpath(["e"]; $i[0] | length == 0) | setpath(["x"] + $i[0]; $i[1])
      else setpath(["e"]; $i[0] | length == 1) end;
    if .e then .x else empty end);`,
  'truncate_stream/1': `def truncate_stream(stream): . as $n | null | stream | . as $input
    | if (.[0] | length) > $n then setpath([0]; $input[0][$n:]) else empty end;`,
  'truncate_stream/2': 'def truncate_stream(depth; stream): depth | truncate_stream(stream);',
  'INDEX/1': 'def INDEX(f): INDEX(.[]; f);',
  'GROUP_BY/1': 'def GROUP_BY(f): group_by(f);',
  'IN/1': 'def IN(s): (any(s == .; .));',
  'IN/2': 'def IN(src; s): (any(src == s; .));',
  'JOIN/2': 'def JOIN($idx; f): [.[] | [., $idx[f]]];',
  'JOIN/3': 'def JOIN($idx; stream; f): stream | [., $idx[f]];',
  'JOIN/4': 'def JOIN($idx; stream; f; join): stream | [., $idx[f]] | join;',
  'match/2': 'def match(re; flags): _match(re; flags) | .[];',
  'match/1': `def match($val): if $val | type == "array" then match($val[0]; $val[1]) else match($val; null) end;`,
  'test/1': `def test($val): if $val | type == "array" then test($val[0]; $val[1]) else test($val; null) end;`,
  'capture/2': `def capture(re; flags): match(re; flags)
    | reduce (.captures[] | select(.name != null)) as $c ({}; .[$c.name] = $c.string);`,
  'capture/1': `def capture($val): if $val | type == "array" then capture($val[0]; $val[1]) else capture($val; null) end;`,
  'scan/2': `def scan($re; $flags): match($re; "g" + $flags)
    | if .captures | length > 0 then [.captures[].string] else .string end;`,
  'scan/1': 'def scan($re): scan($re; null);',
  'splits/2': `def splits($re; $flags): .[foreach (match($re; $flags + "g"), null) as {$offset, $length}
    (null; {start: .next, end: $offset, next: ($offset + $length)}) | {start, end}];`,
  'splits/1': 'def splits($re): splits($re; null);',
  'split/2': 'def split($re; $flags): [splits($re; $flags)];',
  'sub/3': `def sub($re; s; $flags): . as $in
    | (reduce match($re; $flags) as $edit ({result: [], previous: 0};
        $in[.previous:$edit.offset] as $gap
        | [reduce ($edit.captures[] | select(.name != null)) as $c ({}; .[$c.name] = $c.string) | s] as $inserts
        | reduce range(0; $inserts | length) as $i (.; .result[$i] += $gap + $inserts[$i])
        | .previous = ($edit | .offset + .length))
      | .result[] + $in[.previous:]) // $in;`,
  'sub/2': 'def sub($re; s): sub($re; s; "");',
  'gsub/3': 'def gsub($re; s; $flags): sub($re; s; $flags + "g");',
  'gsub/2': 'def gsub($re; s): sub($re; s; "g");',
  'todate/0': 'def todate: strftime("%Y-%m-%dT%H:%M:%SZ");',
  'todateiso8601/0': 'def todateiso8601: todate;',
  'fromdateiso8601/0': 'def fromdateiso8601: fromdate;',
  'date/0': 'def date: todate;',
  'dateadd/2': 'def dateadd(u; n): . + n;',
  'datesub/2': 'def datesub(u; n): . - n;',
}

/** As `name/arity`; a `_` marks helpers of other builtins. */
export const BUILTIN_NAMES: readonly string[] = [VALUES, FILTERS, PRELUDE].flatMap(Object.keys)

const MANY = { ...NULL, one: undefined }

/** Tests if a builtin certainly yields exactly one value. */
export function builtinYieldsOne(name: string, argumentsDo: boolean): boolean {
  if (Object.hasOwn(VALUES, name)) return argumentsDo
  const filter = fieldOf(FILTERS, name)
  const argument = argumentsDo ? NULL : MANY
  return filter?.(argument, argument, argument).one !== undefined
}
