/** Settings that a tenant chooses for a container image: its reference, arguments, variables and limits. */

import Type, { type Static } from 'typebox'
import { AnyName } from '../../../access/operation-builders.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import { isSecretName } from '../../../core/redact.ts'
import { SecretName } from '../../flows/secrets.ts'
import { fieldProblem } from '../../operation-helpers.ts'
import { MCP_LIMITS } from '../limits.ts'
import { rejectErrors } from '../tool.ts'

const { images: IMAGES } = MCP_LIMITS

/**
 * A registry, a name and a digest (OCI distribution specification, "Pulling manifests"). A tag could be moved to another image,
 * and without a registry engines choose one. It begins with a letter or a digit, so that no engine reads it as an option.
 */
const REFERENCE =
  '(?=[^/]*[.:])[a-z0-9][a-z0-9.-]{0,252}(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:(?:[.]|_{1,2}|-{1,8})[a-z0-9]+)*){1,20}@sha256:[a-f0-9]{64}'

export const ImageReference = Type.String({
  maxLength: IMAGES.referenceCharsMax,
  pattern: `^(?:dev:[a-z0-9-]{1,63}|${REFERENCE})$`,
  description: 'Image for the kind `image`: `<registry>/<name>@sha256:<digest>`, without a tag.',
})

/** One line of visible ASCII: engines read variables from a file with one a line. */
const LINE = '^[\\t\\x20-\\x7e]*$'

const EnvChoice = Type.Union([
  Type.Object(
    { secret: SecretName },
    { additionalProperties: false, description: 'Secret of the workspace whose value is a single line.' },
  ),
  Type.Object({ value: Type.String({ pattern: LINE, maxLength: 1_000 }) }, { additionalProperties: false }),
])
export const EnvChoices = Type.Record(AnyName, EnvChoice, {
  maxProperties: IMAGES.envMax,
  description: 'Environment variables of the container, by name.',
})
export type EnvChoices = Static<typeof EnvChoices>

export const CommandArgs = Type.Array(
  Type.String({ maxLength: IMAGES.argumentCharsMax, pattern: '^[^\\x00]*$' }),
  { maxItems: IMAGES.argumentsMax, description: 'Arguments after the entry point of the image.' },
)

type Range = Readonly<Record<'min' | 'max' | 'default', number>>
const within = ({ min, max, default: usual }: Range, unit: string) => ({
  minimum: min,
  maximum: max,
  description: `${unit}. Default: ${usual}.`,
})
const { memoryMb, cpus, pids, timeoutSeconds } = IMAGES
export const ImageLimitChoices = Type.Partial(
  Type.Object({
    memory_mb: Type.Integer(within(memoryMb, 'Memory in MiB')),
    cpus: Type.Number(within(cpus, 'Number of CPU cores')),
    pids: Type.Integer(within(pids, 'Number of processes and threads')),
    timeout_seconds: Type.Integer(
      within(timeoutSeconds, 'Seconds until a call times out, including the start of the container'),
    ),
  }),
  { additionalProperties: false },
)

export const ImageLimits = Type.Object({
  memory_mb: Type.Integer(),
  cpus: Type.Number(),
  pids: Type.Integer(),
  timeout_seconds: Type.Integer(),
})
export type ImageLimits = Static<typeof ImageLimits>

/** Settings of a source of the kind image, as they are stored. */
export const ImageSettings = Type.Object({
  reference: Type.String(),
  command_args: Type.Array(Type.String()),
  env: EnvChoices,
  limits: ImageLimits,
})
export type ImageSettings = Static<typeof ImageSettings>

/** @throws Problem `validation_failed` */
export function imageSettings({
  image,
  command_args = [],
  env = {},
  limits = {},
}: {
  readonly image?: string
  readonly command_args?: readonly string[]
  readonly env?: EnvChoices
  readonly limits?: Static<typeof ImageLimitChoices>
}): ImageSettings {
  if (image === undefined) throw fieldProblem('image', 'is missing: the kind image needs it.')
  checkEnv(env)
  // A command of the operator runs on the host, where arguments and variables would be code.
  if (isDevelopment(image) && (command_args.length > 0 || Object.keys(env).length > 0))
    throw fieldProblem('image', 'is a server of the operator, which takes neither `command_args` nor `env`.')
  return {
    reference: image,
    command_args: [...command_args],
    env,
    limits: {
      memory_mb: limits.memory_mb ?? memoryMb.default,
      cpus: limits.cpus ?? cpus.default,
      pids: limits.pids ?? pids.default,
      timeout_seconds: limits.timeout_seconds ?? timeoutSeconds.default,
    },
  }
}

export const isDevelopment = (image: string): boolean => image.startsWith('dev:')

/** The address of a source of the kind image. */
export const imageUrl = ({ reference }: ImageSettings): string =>
  isDevelopment(reference) ? reference : `oci://${reference}`

/** @throws Problem `validation_failed` for invalid names, and for a secret that is written in clear */
function checkEnv(env: EnvChoices): void {
  rejectErrors(
    Object.entries(env).map(([name, choice]): InputError | undefined => {
      const detail = envFault(name, choice)
      const pointer = `/env/${name.slice(0, 100)}`
      return detail === undefined ? undefined : { in: 'body', name: 'env', pointer, detail }
    }),
  )
}

function envFault(name: string, choice: EnvChoices[string]): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(name)) return 'is no name of an environment variable'
  if ('value' in choice && isSecretName(name))
    return 'holds a secret: write {"secret": "<name of a secret of the workspace>"}'
  return undefined
}

/** @throws Problem `state_conflict` for a value that would be more than one variable */
export function requireLine(secret: string, value: unknown): string {
  if (typeof value === 'string' && new RegExp(LINE).test(value)) return value
  const why = value === undefined ? 'does not exist' : 'is no single line of ASCII, as a variable needs'
  throw new Problem('state_conflict', {
    detail: `The secret ${secret} of the source ${why}.`,
    adminHint: 'An admin stores it: PUT /v1/flows/workspaces/{ws}/secrets/{name}.',
  })
}
