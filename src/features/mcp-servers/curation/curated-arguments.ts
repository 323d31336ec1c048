/** Changes of a tool's arguments by an admin: fixed, hidden, with a default, described, narrowed, with examples. */

import Type, { type Static } from 'typebox'
import type { Budget } from '../../../../flows-dsl/budget.ts'
import { didYouMean } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { patternError } from '../../../../flows-dsl/json-schema/pattern.ts'
import { AnyName } from '../../../access/operation-builders.ts'
import { isCompatible } from '../../collections/schemas/is-compatible.ts'
import { errorsWithin } from '../../schema-errors.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { Candidate, JsonSchema, Preset } from '../tool.ts'

/** Keywords by which the values of an argument may be narrowed. */
const NARROWING = [
  ...['enum', 'const', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  ...['minLength', 'maxLength', 'pattern', 'minItems', 'maxItems'],
]

const ArgumentChoice = Type.Object(
  {
    fixed: Type.Optional(
      Type.Unknown({ description: 'Value of the argument in every call; clients do not see the argument.' }),
    ),
    hidden: Type.Optional(
      Type.Boolean({ description: 'True if clients do not see the argument and cannot set it.' }),
    ),
    default: Type.Optional(Type.Unknown({ description: 'Value in calls without the argument.' })),
    description: Type.Optional(Type.String({ minLength: 1, maxLength: MCP_LIMITS.descriptionCharsMax })),
    schema: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: `Keywords that restrict the values: ${NARROWING.join(', ')}. They cannot allow more than the source.`,
      }),
    ),
  },
  { additionalProperties: false },
)
type ArgumentChoice = Static<typeof ArgumentChoice>

export const ArgumentChoices = Type.Record(AnyName, ArgumentChoice, {
  maxProperties: MCP_LIMITS.comparableFieldsMax,
  description: 'Changes to arguments, by name.',
})
export type ArgumentChoices = Static<typeof ArgumentChoices>

interface Curated {
  readonly input_schema: JsonSchema
  readonly preset: Preset
}

const isFixed = (choice: ArgumentChoice) => Object.hasOwn(choice, 'fixed')
const hasDefault = (choice: ArgumentChoice) => Object.hasOwn(choice, 'default')
const isHidden = (choice: ArgumentChoice) => isFixed(choice) || choice.hidden === true

/** The arguments that clients are shown, and the values of the others. */
export function curateArguments(
  { input_schema }: Pick<Candidate, 'input_schema'>,
  choices: ArgumentChoices,
): Curated {
  const chosen = Object.entries(choices)
  const valuesOf = (has: (choice: ArgumentChoice) => boolean, member: 'fixed' | 'default') =>
    Object.fromEntries(
      chosen.filter(([, choice]) => has(choice)).map(([name, choice]) => [name, choice[member]]),
    )
  const preset: Preset = {
    fixed: valuesOf(isFixed, 'fixed'),
    defaults: valuesOf(hasDefault, 'default'),
    hidden: chosen.filter(([, choice]) => isHidden(choice)).map(([name]) => name),
  }
  const visible = Object.entries(propertiesOf(input_schema)).filter(([name]) => !preset.hidden.includes(name))
  const properties = Object.fromEntries(
    visible.map(([name, schema]) => [name, narrowed(schema, choices[name])]),
  )
  const required = ((input_schema['required'] ?? []) as string[]).filter(
    (name) => Object.hasOwn(properties, name) && !Object.hasOwn(preset.defaults, name),
  )
  return { input_schema: { ...input_schema, properties, required }, preset }
}

const propertiesOf = ({ properties }: JsonSchema) =>
  (properties ?? {}) as Readonly<Record<string, JsonSchema>>

/** The schema of an argument with its curated description, default and narrower values. */
function narrowed(was: JsonSchema, choice: ArgumentChoice = {}): JsonSchema {
  const { description, schema } = choice
  const { $schema: _dialect, ...values } = schema ?? {}
  return {
    ...was,
    ...values,
    ...(description !== undefined && { description }),
    ...(hasDefault(choice) && { default: choice.default }),
  }
}

/** The errors of the choices: argument and detail. @param budget of the checks of a whole curation */
export function argumentFaults(
  { input_schema }: Pick<Candidate, 'input_schema'>,
  choices: ArgumentChoices,
  budget: Budget,
): (readonly [argument: string, detail: string])[] {
  const known = propertiesOf(input_schema)
  const required = (input_schema['required'] ?? []) as string[]
  return Object.entries(choices).flatMap(([name, choice]) => {
    const was = Object.hasOwn(known, name) ? known[name] : undefined
    const unknown = `is no argument of this tool. ${didYouMean(name, Object.keys(known)) ?? ''}`.trimEnd()
    if (was === undefined) return [[name, unknown]] as const
    const isMissing = isHidden(choice) && !isFixed(choice) && !hasDefault(choice) && required.includes(name)
    const root = { ...narrowed(was, choice), $defs: input_schema['$defs'] ?? {} }
    const details = [
      ...narrowingFaults(was, choice),
      isMissing ? 'is required, so it takes `fixed` or `default` to hide it' : undefined,
      isFixed(choice) && hasDefault(choice) ? 'takes `fixed` or `default`, not both' : undefined,
      isFixed(choice) ? firstError(root, choice.fixed, budget, 'fixed ') : undefined,
      hasDefault(choice) ? firstError(root, choice.default, budget, 'default ') : undefined,
    ]
    return details.flatMap((detail) => (detail === undefined ? [] : [[name, detail] as const]))
  })
}

function narrowingFaults(was: JsonSchema, choice: ArgumentChoice): (string | undefined)[] {
  // The keywords that narrow mean the same in all dialects since draft 6.
  const { $schema: _dialect, ...schema } = choice.schema ?? {}
  const { pattern } = schema
  const unknown = Object.keys(schema).find((keyword) => !NARROWING.includes(keyword))
  const fault = typeof pattern === 'string' ? patternError(pattern) : undefined
  const { description: _description, default: _default, ...values } = was
  return [
    unknown === undefined
      ? undefined
      : `schema.${unknown} is not taken here; there are ${NARROWING.join(', ')}`,
    fault === undefined ? undefined : `schema.pattern ${fault}`,
    isCompatible({ ...values, ...schema }, values)
      ? undefined
      : 'schema allows values that the source does not allow',
  ]
}

/** @returns the first error of a value, behind the given words; also if the budget is used up */
export function firstError(
  schema: JsonSchema,
  value: unknown,
  budget: Budget,
  words = '',
): string | undefined {
  const [error] = errorsWithin(schema, value, budget)
  if (error === undefined) return undefined
  const { pointer, missing, message } = error
  return (
    words +
    (missing === undefined ? `${pointer} ${message}`.trimStart() : `${pointer}/${missing} is required`)
  )
}

/** The arguments of a call with those that its client did not choose. */
export function withPreset(
  args: Readonly<Record<string, unknown>>,
  { fixed, defaults, hidden }: Preset = { fixed: {}, defaults: {}, hidden: [] },
): Record<string, unknown> {
  const chosen = Object.entries(args).filter(([name]) => !hidden.includes(name))
  return { ...defaults, ...Object.fromEntries(chosen), ...fixed }
}
