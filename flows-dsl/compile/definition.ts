/** Compiles the top level of a definition to a flow (OWS 1.0 "Workflow", "Evaluate"). */

import { compileUnused, compileUse } from '../components/use.ts'
import { OTHER_LANGUAGES } from '../diagnostics/remedies.ts'
import { type Expectations, type FlowDocument, type FlowIR, sizeOf } from '../ir.ts'
import { shapeOfSchema } from '../jq/static-type.ts'
import { omitUndefined } from '../json.ts'
import { type CompileContext, SCOPES } from './compile-context.ts'
import { compileConcurrency } from './concurrency.ts'
import { compileInput, compileOutput, compileTimeout } from './data-flow.ts'
import { optionalDuration } from './duration.ts'
import { computeFacts } from './facts.ts'
import { compileSchedule } from './schedule.ts'
import { type MapNode, type SourceNode, valueAt } from './source-nodes.ts'
import { compileTasks, ON_FAULT } from './task-list.ts'
import { checkTriggerInput } from './trigger-input.ts'

const VERSIONS = ['1.0.0', '1.0.1', '1.0.2', '1.0.3']
const MODES = ['strict', 'loose'] as const
const KEYS = [
  'document',
  'input',
  'use',
  'schedule',
  'concurrency',
  'limits',
  'expect',
  'evaluate',
  'timeout',
  'onFault',
  'output',
  'do',
  'onError',
  'finally',
]
/** More tasks than this belong into several executions: each leaves a record. */
export const TASKS_MAX = 100_000
/** Every execution carries the compiled flow, and a Temporal payload holds at most 2 MB. */
const COMPILED_MAX = 1_048_576
export const EXPECTATIONS = ['duration', 'interval']
const REQUIRED = ['dsl', 'namespace', 'name', 'version'] as const
const OPTIONAL = ['title', 'summary'] as const
/** Mappings with arbitrary content. */
const FREE = ['tags', 'metadata']
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i
export const SEMVER =
  '^(?:0|[1-9]\\d*)(?:\\.(?:0|[1-9]\\d*)){2}(?:-[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*)?(?:\\+[0-9A-Za-z.-]+)?$'

/** Compiles a whole definition. The result is valid only if `context` has no diagnostics. */
export function compileDefinition(source: SourceNode, context: CompileContext): FlowIR | undefined {
  if (isOtherLanguage(source, context)) return undefined
  const flow = context.map(source, 'A definition', KEYS)
  if (flow === undefined) return undefined
  context.isLoose = isLoose(flow, context)
  const document = compileDocument(flow, context)
  compileUse(flow, context)
  const input = compileInput(flow, SCOPES.flowInput, context)
  context.flowInput = shapeOfSchema(input?.schema)
  const options = {
    input,
    output: compileOutput(flow, SCOPES.flowOutput, context),
    schedule: compileSchedule(flow, context),
    concurrency: compileConcurrency(flow, context),
    limits: compileLimits(flow, context),
    expect: compileExpectations(flow, context),
    timeoutMs: compileTimeout(flow, SCOPES.flowInput, context),
    onFault: context.optionalChoice(flow, 'onFault', ON_FAULT),
    secrets: context.declaredSecrets.length > 0 ? context.declaredSecrets : undefined,
  }
  checkTriggerInput(flow, omitUndefined(options), context)
  checkInterval(flow, omitUndefined(options), context)
  const list = context.required(flow, 'A definition', 'do')
  const first = input?.from === undefined ? context.flowInput : undefined
  const tasks = list && compileTasks(list, context, { first })
  const handlers = compileHandlers(flow, context)
  const used = { functions: [...context.functions], secrets: [...context.secrets] }
  compileUnused(context)
  if (document === undefined || tasks === undefined || context.diagnostics.length > 0) return undefined
  const ir = {
    ir_version: 1,
    semantics: 1,
    document,
    ...omitUndefined(options),
    do: tasks,
    ...handlers,
  } as const
  if (sizeOf(ir, COMPILED_MAX) > COMPILED_MAX) {
    const message = `The compiled flow has more than ${COMPILED_MAX} characters.`
    const hint = 'A function counts once per call, and an extension once per extended task.'
    return context.report('compiled_too_large', source, message, hint)
  }
  return { ...ir, facts: computeFacts(ir, used) }
}

/** Reports a definition of another flow language by the first of its keys, and nothing else of it. */
function isOtherLanguage(source: SourceNode, context: CompileContext): boolean {
  if (source.kind !== 'map' || valueAt(source, 'do') !== undefined) return false
  const found = source.entries.find(({ key }) => Object.hasOwn(OTHER_LANGUAGES, key))
  if (found === undefined) return false
  const message = `The key \`${found.key}\` does not belong in a definition.`
  context.report('unknown_key', found.at, message, OTHER_LANGUAGES[found.key])
  return true
}

/** The tasks that run if the flow faults, and at its end (an extension of ours). */
function compileHandlers(flow: MapNode, context: CompileContext): Pick<FlowIR, 'onError' | 'finally'> {
  const onError = valueAt(flow, 'onError')
  const last = valueAt(flow, 'finally')
  return omitUndefined({
    onError: onError && context.withVariables(['error'], () => compileTasks(onError, context)),
    finally: last && compileTasks(last, context),
  })
}

/** `limits.tasks`: how many tasks an execution may enter (an extension of ours). */
function compileLimits(flow: MapNode, context: CompileContext): FlowIR['limits'] {
  const map = context.optionalMap(flow, 'limits', ['tasks'])
  const node = map && context.required(map, '`limits`', 'tasks')
  const tasks = node && context.integer(node, '`tasks`', 1, TASKS_MAX)
  return tasks === undefined ? undefined : { tasks }
}

/** `expect`: how long an execution lasts, and how often the flow starts (an extension of ours). */
function compileExpectations(flow: MapNode, context: CompileContext): Expectations | undefined {
  const map = context.optionalMap(flow, 'expect', EXPECTATIONS)
  if (map === undefined) return undefined
  if (!map.entries.some(({ key }) => EXPECTATIONS.includes(key))) {
    return context.report('missing_key', map, '`expect` has neither `duration` nor `interval`.')
  }
  // The reconciler looks once a second.
  const [durationMs, intervalMs] = EXPECTATIONS.map((key) => optionalDuration(map, key, 1_000, context))
  return omitUndefined({ durationMs, intervalMs })
}

/** Warns of an `expect.interval` that `schedule.every` misses. */
function checkInterval(
  flow: MapNode,
  { schedule, expect: { intervalMs } = {} }: Pick<FlowIR, 'schedule' | 'expect'>,
  context: CompileContext,
): void {
  if (schedule?.everyMs === undefined || intervalMs === undefined || intervalMs > schedule.everyMs) return
  const map = context.optionalMap(flow, 'expect')
  const at = (map && valueAt(map, 'interval')) ?? flow
  const message = '`interval` is not longer than `schedule.every`, so late starts count as missed.'
  context.warnings.report('interval_too_short', at, message, 'Add the time by which a start may be late.')
}

function compileDocument(flow: MapNode, context: CompileContext): FlowDocument | undefined {
  const map = context.requiredMap(flow, 'A definition', 'document', [...REQUIRED, ...OPTIONAL, ...FREE])
  if (map === undefined) return undefined
  for (const key of FREE) context.optionalMap(map, key)
  const [dsl, namespace, name, version] = REQUIRED.map((key) => compileDocumentText(map, key, context))
  const [title, summary] = OPTIONAL.map((key) => context.optionalText(map, key))
  if (dsl === undefined || namespace === undefined || name === undefined || version === undefined)
    return undefined
  return { dsl, namespace, name, version, ...omitUndefined({ title, summary }) }
}

function compileDocumentText(map: MapNode, key: (typeof REQUIRED)[number], context: CompileContext) {
  const text = context.requiredText(map, '`document`', key)
  if (text === undefined) return undefined
  const value = valueAt(map, key) ?? map
  if (key === 'dsl' && !VERSIONS.includes(text)) {
    const message = `Version \`${text}\` of the language is not supported.`
    return context.report(
      'dsl_version_unsupported',
      value,
      message,
      `Write '${VERSIONS.at(-1)}', the newest version.`,
    )
  }
  if (key === 'version' && !new RegExp(SEMVER).test(text)) {
    return context.report('value_invalid', value, '`version` must be a semantic version, such as 1.0.0.')
  }
  if ((key === 'name' || key === 'namespace') && !NAME.test(text)) {
    const message = `\`${key}\` must be 1 to 63 letters, digits and inner hyphens.`
    return context.report('value_invalid', value, message)
  }
  return text
}

/**
 * Tests if `evaluate.mode` is loose: every text is an expression, or itself if it cannot be evaluated. In strict mode,
 * the default, an expression is written as `${ }`, except in conditions and filters.
 */
function isLoose(flow: MapNode, context: CompileContext): boolean {
  const map = context.optionalMap(flow, 'evaluate', ['language', 'mode'])
  if (map === undefined) return false
  const language = context.optionalText(map, 'language') ?? 'jq'
  if (language !== 'jq') {
    const message = `Expressions in \`${language}\` are not supported.`
    const at = valueAt(map, 'language') ?? map
    context.report('unsupported_feature', at, message, 'The language of expressions is jq.')
  }
  return context.optionalChoice(map, 'mode', MODES) === 'loose'
}
