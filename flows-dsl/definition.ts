/** Compiles the top level of a definition to a flow (OWS 1.0 "Workflow", "Evaluate"). */

import { type Checker, SCOPES } from './checker.ts'
import { compileConcurrency } from './concurrency.ts'
import { compileFlowTimeout, compileInput, compileOutput } from './data-flow.ts'
import { factsOf } from './facts.ts'
import { type FlowDocument, type FlowIR, sizeOf } from './ir.ts'
import { entryOf, type Located, type LocatedMap } from './located.ts'
import { compileSchedule } from './schedule.ts'
import { compileOnFault, compileTasks } from './task-list.ts'
import { checkUnused, openUse } from './use/use.ts'

const VERSIONS = ['1.0.0', '1.0.1', '1.0.2', '1.0.3']
const KEYS = [
  'document',
  'input',
  'use',
  'schedule',
  'concurrency',
  'evaluate',
  'timeout',
  'onFault',
  'output',
  'do',
]
/** It travels with each run, and Temporal takes 2 MB at once. */
const COMPILED_MAX = 1_048_576
const REQUIRED = ['dsl', 'namespace', 'name', 'version'] as const
const OPTIONAL = ['title', 'summary'] as const
/** Mappings in which the author writes whatever he likes. */
const FREE = ['tags', 'metadata']
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i
const SEMVER =
  /^(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]+)?$/

/** Compiles a whole definition. What it answers is only good if `checker` has no faults. */
export function compileDefinition(source: Located, checker: Checker): FlowIR | undefined {
  const flow = checker.map(source, 'A definition')
  if (flow === undefined) return undefined
  checker.keys(flow, 'a definition', KEYS)
  checker.isLoose = isLoose(flow, checker)
  const document = compileDocument(flow, checker)
  openUse(flow, checker)
  const input = compileInput(flow, SCOPES.flowInput, checker)
  const output = compileOutput(flow, SCOPES.flowOutput, checker)
  const schedule = compileSchedule(flow, checker)
  const concurrency = compileConcurrency(flow, checker)
  const timeoutMs = compileFlowTimeout(flow, checker)
  const policy = compileOnFault(flow, checker)
  const list = checker.required(flow, 'A definition', 'do')
  const tasks = list && compileTasks(list, checker)
  const used = { functions: [...checker.functions], secrets: [...checker.secrets] }
  checkUnused(checker)
  if (document === undefined || tasks === undefined || checker.faults.length > 0) return undefined
  const ir = {
    ir_version: 1,
    semantics: 1,
    document,
    ...(input !== undefined && { input }),
    ...(output !== undefined && { output }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...policy,
    ...(schedule !== undefined && { schedule }),
    ...(concurrency !== undefined && { concurrency }),
    ...(checker.declaredSecrets.length > 0 && { secrets: checker.declaredSecrets }),
    do: tasks,
  } as const
  if (sizeOf(ir, COMPILED_MAX) > COMPILED_MAX) return tooLarge(source, checker)
  return { ...ir, facts: factsOf(tasks, used) }
}

function tooLarge(source: Located, checker: Checker): undefined {
  const message = `The compiled flow has more than ${COMPILED_MAX} characters.`
  const hint = 'A function counts wherever it is called, an extension at each task that it extends.'
  return checker.fault('compiled_too_large', source, message, hint)
}

function compileDocument(flow: LocatedMap, checker: Checker): FlowDocument | undefined {
  const given = checker.required(flow, 'A definition', 'document')
  const map = given && checker.map(given, '`document`')
  if (map === undefined) return undefined
  checker.keys(map, '`document`', [...REQUIRED, ...OPTIONAL, ...FREE])
  for (const key of FREE) {
    const value = entryOf(map, key)?.value
    if (value !== undefined) checker.map(value, `\`${key}\``)
  }
  const [dsl, namespace, name, version] = REQUIRED.map((key) => requiredText(map, key, checker))
  const [title, summary] = OPTIONAL.map((key) => optionalText(map, key, checker))
  if (dsl === undefined || namespace === undefined || name === undefined || version === undefined)
    return undefined
  const named = { ...(title !== undefined && { title }), ...(summary !== undefined && { summary }) }
  return { dsl, namespace, name, version, ...named }
}

function requiredText(map: LocatedMap, key: (typeof REQUIRED)[number], checker: Checker): string | undefined {
  const value = checker.required(map, '`document`', key)
  const text = value && checker.text(value, `\`${key}\``)
  if (value === undefined || text === undefined) return undefined
  if (key === 'dsl' && !VERSIONS.includes(text)) {
    const message = `Version \`${text}\` of the language is not supported.`
    return checker.unknown('dsl_version_unsupported', value, message, text, VERSIONS)
  }
  if (key === 'version' && !SEMVER.test(text)) {
    return checker.fault('value_invalid', value, '`version` must be a semantic version, such as 1.0.0.')
  }
  if ((key === 'name' || key === 'namespace') && !NAME.test(text)) {
    return checker.fault(
      'value_invalid',
      value,
      `\`${key}\` must be 1 to 63 letters, digits and inner hyphens.`,
    )
  }
  return text
}

function optionalText(map: LocatedMap, key: string, checker: Checker): string | undefined {
  const value = entryOf(map, key)?.value
  return value && checker.text(value, `\`${key}\``)
}

const MODES = ['strict', 'loose']

/**
 * Whether every text is an expression, and stands for itself where it cannot be evaluated. In the strict mode, which
 * is the default, an expression stands in `${ }`; conditions and filters, which can be nothing else, need no signs.
 */
export function isLoose(flow: LocatedMap, checker: Checker): boolean {
  const given = entryOf(flow, 'evaluate')?.value
  const map = given && checker.map(given, '`evaluate`')
  if (map === undefined) return false
  checker.keys(map, '`evaluate`', ['language', 'mode'])
  const value = entryOf(map, 'language')?.value
  const language = value && checker.text(value, '`language`')
  if (value !== undefined && language !== undefined && language !== 'jq') {
    const message = `Expressions in \`${language}\` are not supported.`
    checker.fault('unsupported_feature', value, message, 'The language of expressions is jq.')
  }
  const chosen = entryOf(map, 'mode')?.value
  const mode = chosen && checker.text(chosen, '`mode`')
  if (chosen !== undefined && mode !== undefined && !MODES.includes(mode)) {
    checker.unknown('value_invalid', chosen, `There is no mode \`${mode}\`.`, mode, MODES)
  }
  return mode === 'loose'
}
