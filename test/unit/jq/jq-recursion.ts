/** Reports recursive programs that do not end with the expected error. Runs as a process of its own. */

import { newBudget } from '../../../flows-dsl/budget.ts'
import { FlowError } from '../../../flows-dsl/errors.ts'
import { evaluateAll } from '../../../flows-dsl/jq/evaluate.ts'
import { parseExpression } from '../../../flows-dsl/jq/parser/parse.ts'

function nest(times: number, inner: string, open: string, close: string): string {
  return open.repeat(times) + inner + close.repeat(times)
}

const PROGRAMS = [
  'def f: 1+f; f',
  'def f: [f]; f',
  'def f: {a:f}; f',
  'def f: f|1; f',
  'def f: f,1; f',
  'def f: if f then 1 else 2 end; f',
  'def f: try f catch 1; f',
  'def f: label $x|f,1; f',
  'def f: reduce f as $x (0;1); f',
  'def f: foreach f as $x (0;1); f',
  'def f: first(f); f',
  'def f: map(f); [1]|f',
  'def f: path(f); f',
  'def f: .a|=f; {}|f',
  'def f(g): f(1+g); f(1)',
  'def f(g): g|f(g,g)|.; f(.)',
  'def f: [limit(3;f)]; f',
  'def f: any(f;f); f',
  'def f: walk(f); [1]|f',
  'def f: "\\(f)"; f',
  'def f: f as [$a] ?// $b|1; f',
  'def f: (f)[0]; f',
  'def f: sort_by(f); [1,2]|f',
  'def f: .[]|f,f; [1]|f',
  'def f: .,(f|f); f',
  'def f: (1,2)|f,3; f',
  'def f: select(f); f',
  'def f: del(f); f',
  'def f: getpath(f); f',
  'def f: input_line_number|recurse(f); f',
  `def f: ${nest(50, 'f', '(1+', '+1)')}; f`,
  `def f: ${nest(55, 'f', '[', ']')}; f`,
  `def f: ${nest(30, 'f', 'if (1,2) then ', ',3 else 4 end')}; f`,
  `def f: ${nest(50, 'f', '(.,', ')')}; f`,
  `def f: ${nest(25, 'f', '(try ', ')')}; f`,
  `def f: ${nest(50, 'f', 'first(', ')')}; f`,
  `def f: ${nest(50, 'f', 'path(', ')')}; f`,
  `def f: ${nest(25, 'f', '[limit(1;', ')]')}; f`,
  `def f: ${Array.from({ length: 55 }, () => '(1,2)').join('|')}|f,1; f`,
  `def f: ${Array.from({ length: 55 }, () => '.').join('|')}|f,1; f`,
  `${'def f: .a'.repeat(1) + '.a'.repeat(100)}|f,1; null|f`,
  `def f: path(${'.a'.repeat(100)}|f),1; null|f`,
  'path(def f: (.a|f),1; f)',
  `path(def f: ${nest(50, 'f', 'first(', ')')}; f)`,
  'def f(a;b;c): f(a+b;b+c;c+a); f(1;2;3)',
  'def f: (def g: f; g)+1; f',
  'def w(x): x|w(x,x); w(1)',
  '[recurse([.[]?,1])]',
  'def r: (.,.)|r; r',
  'def f: . as [$a,{b:$c}]|f,1; null|f',
  'def f: reduce (1,2) as $x (.; f); f',
  'def f: .. |= f; 1|f',
  'def f: with_entries(f); {a:1}|f',
  'def f: sub("a";f); "a"|f',
  'def f: fromstream(f);f',
  'def f: group_by(f);[1,2]|f',
  'def f: INDEX(f;f);f',
  'def f: paths(f);[[1]]|f',
  'def f: isvalid(f);f',
  'def f: until(f;f);f',
  'def f: f//f;f',
  'def f: f and f;f',
  'def f: -f;f',
  'def f: (f|not);f',
  'def f: .[f:f];[1]|f',
  'def f: tostream|f,1;1|f',
  'def f: error(f);f',
  'def f: try error(1) catch (f,1);f',
  'def f: [f[]?];f',
  'def f: pick(f);f',
]

/** Runs each to its end, which is an error of the expression. */
function wrong(program: string): string | undefined {
  const parsed = parseExpression(program, [])
  if (!('op' in parsed)) return `${program}: ${parsed.message}`
  try {
    evaluateAll(parsed, null, { variables: {}, nowMs: 0 }, newBudget())
    return `${program}: ended`
  } catch (error) {
    return error instanceof FlowError ? undefined : `${program}: ${String(error)}`
  }
}

process.stdout.write(JSON.stringify(PROGRAMS.map(wrong).filter((report) => report !== undefined)))
