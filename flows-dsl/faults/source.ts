// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Faults of a definition as a text: its size, and what YAML it may be. */

import { type FaultKind, flow, task } from './kind.ts'

/** Functions of which each calls the one before twice. */
function doubled(count: number): readonly string[] {
  const calls = Array.from({ length: count }, (_, i) => `[{ a: { call: f${i} } }, { b: { call: f${i} } }]`)
  return ['    f0: { set: { paid: true } }', ...calls.map((list, i) => `    f${i + 1}: { do: ${list} }`)]
}

export const SOURCE_FAULTS = {
  source_too_large: {
    title: 'The definition is too large',
    explanation:
      'A definition has at most 262,144 bytes and 50,000 words and signs. Long lists belong into the input of the flow, or into a collection.',
    example: `¦${flow('do: [{ pay: { set: { paid: true } } }]')}#${' '.repeat(262_144)}`,
    fix: task('set: { paid: true }'),
  },
  compiled_too_large: {
    title: 'The compiled flow is too large',
    explanation:
      'The compiled form travels with each run and has at most 1,048,576 characters. A function counts wherever it is called, an extension at each task that it extends.',
    example: `¦${flow('use:', '  functions:', ...doubled(24), 'do: [{ pay: { call: f24 } }]')}`,
    fix: flow('use:', '  functions:', ...doubled(2), 'do: [{ pay: { call: f2 } }]'),
  },
  nesting_too_deep: {
    title: 'The definition is nested too deeply',
    explanation:
      'Mappings and lists stand at most 64 deep within each other, and functions call each other 32 deep. Functions make deep definitions flat.',
    example: task(`set: { deep: ${'['.repeat(60)}¦[${']'.repeat(61)} }`),
    fix: task(`set: { deep: ${'['.repeat(50)}${']'.repeat(50)} }`),
  },
  yaml_syntax: {
    title: 'The definition is not valid YAML',
    explanation:
      'The text cannot be read as YAML 1.2. Expressions often need quotes, since `{`, `}`, `:` and `#` mean something in YAML.',
    example: `${task('set: { paid: true')}¦`,
    fix: task('set: { paid: true }'),
  },
  yaml_alias_refused: {
    title: 'Anchors and aliases are not allowed',
    explanation:
      'A definition is read as it stands; with aliases a small text could become a huge one. What is used twice is declared under `use`.',
    example: task('set: &paid ¦{ paid: true }'),
    fix: task('set: { paid: true }'),
  },
  yaml_directive_refused: {
    title: 'YAML directives are not allowed',
    explanation: 'The version of YAML is 1.2, and it cannot be chosen.',
    example: `¦%YAML 1.2\n---\n${task('set: { paid: true }')}`,
    fix: task('set: { paid: true }'),
  },
  yaml_multiple_documents: {
    title: 'There is more than one YAML document',
    explanation: 'A definition is one document, without a line of `---` between parts.',
    example: `${task('set: { paid: true }')}¦---\nmore: true\n`,
    fix: task('set: { paid: true }'),
  },
  yaml_duplicate_key: {
    title: 'A key stands twice in one mapping',
    explanation: 'Only one of the two could count. One of them has another name, or goes.',
    example: task('set: { paid: true, ¦paid: false }'),
    fix: task('set: { paid: true }'),
  },
  yaml_key_not_string: {
    title: 'A key is not a string',
    explanation: 'Keys of JSON are strings. A number, a date or `true` as a key needs quotes.',
    example: task('set: { ¦1: true }'),
    fix: task('set: { "1": true }'),
  },
  yaml_value_not_json: {
    title: 'A value has no JSON form',
    explanation: 'Data is JSON, which has no such value as `.nan` or `.inf`.',
    example: task('set: { paid: ¦.inf }'),
    fix: task('set: { paid: true }'),
  },
} as const satisfies Record<string, FaultKind>
