/** Generates what the Helm chart says of settings and values: the settings in its JSON Schema, and docs/reference/chart.md. */

import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { SETTINGS } from '../../infra/config.ts'

const CHART = new URL('../../../deploy/helm/tenon/', import.meta.url)

/** Settings that are keys of an existing Secret, by the Secret that has them. The worker's is in the templates. */
export const SECRETS = {
  platform: ['TENON_MASTER_KEY', 'DATABASE_APP_URL', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY', 'REDIS_URL'],
  platformOptional: [
    ...(['MONGODB_URL', 'SMTP_URL', 'TENON_KEYCLOAK_CLIENT_SECRET'] as const),
    ...(['DATABASE_SESSION_URL', 'TEMPORAL_API_KEY', 'REDIS_SENTINEL_PASSWORD'] as const),
  ],
  api: ['TENON_OPERATOR_SECRET', 'GATEWAY_SECRET'],
  worker: ['DATABASE_BUILDER_URL'],
} as const

/** Settings that are no value of the chart, with the reason. */
export const NO_VALUES = {
  'the chart sets them': ['TENON_HOST', 'TENON_PORT', 'TENON_OPS_LISTEN'],
  'keys of an existing Secret': Object.values(SECRETS).flat(),
  'the image sets them': ['TENON_WORKFLOW_BUNDLE', 'TENON_DENO_BIN', 'TENON_DOCS_DIR'],
  'files, for which the chart has no volume': ['TENON_MASTER_KEY_FILE'],
  'for processes that share a machine': ['TENON_EAGER_START_SOCKET', 'TENON_CONTAINER_ENGINE'],
  'for workers of two builds at a time, of which the chart has one Deployment': [
    ...(['TEMPORAL_DEPLOYMENT_NAME', 'TEMPORAL_WORKER_BUILD_ID'] as const),
  ],
  'for development': ['TENON_DEV_STDIO_SERVERS', 'TENON_MAIL_DIR', 'TENON_VALIDATE_RESPONSES'],
} as const

interface Schema {
  readonly $ref?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
}

/** The schema in the folder of the chart, which is written by hand, with the settings of this build. */
export function chartSchema(): string {
  const schema = JSON.parse(readFileSync(new URL('values.schema.json', CHART), 'utf8'))
  const left: readonly string[] = Object.values(NO_VALUES).flat()
  const settings = Object.entries(SETTINGS).filter(([name]) => !left.includes(name))
  schema.properties.settings.properties = Object.fromEntries(settings)
  const { platform, api } = schema.properties.secrets.properties
  platform.properties.optionalKeys = optionalKeys(SECRETS.platformOptional)
  api.properties.optionalKeys = optionalKeys(SECRETS.api)
  return `${JSON.stringify(schema, null, 2)}\n`
}

const optionalKeys = (keys: readonly string[]) => ({
  type: 'array',
  uniqueItems: true,
  items: { enum: keys },
  description: `Further keys that this Secret has, of ${keys.map((key) => `\`${key}\``).join(', ')}.`,
})

const HEAD = `# Values of the chart

What \`helm install\` takes with \`--values\` and \`--set\` for the chart in \`deploy/helm/tenon\`
([how to install it](../deploying.md#kubernetes)). Any other value is refused, and so is one of another form. Defaults are those of \`values.yaml\`.

\`settings.<NAME>\` is a [setting](config.md) of API and worker, under its own name. These are no values:
`

/** The values as a page. */
export function chartPage(): string {
  const schema = JSON.parse(chartSchema()) as Schema & { definitions: Readonly<Record<string, Schema>> }
  const defaults = parse(readFileSync(new URL('values.yaml', CHART), 'utf8')) as object
  const left = Object.entries(NO_VALUES).map(
    ([reason, names]) => `| ${names.map((name) => `\`${name}\``).join(', ')} | ${reason} |`,
  )
  const values = leavesOf(schema, schema.definitions, '').filter(({ path }) => !path.startsWith('settings.'))
  const rows = values.map(
    ({ path, description }) => `| \`${path}\` | ${defaultAt(defaults, path)} | ${description} |`,
  )
  return `${HEAD}\n| setting | reason |\n|---|---|\n${left.join('\n')}\n\n| value | default | description |\n|---|---|---|\n${rows.join('\n')}\n`
}

interface Leaf {
  readonly path: string
  readonly description: string
}

/** The described values below a schema, in its order. */
function leavesOf(schema: Schema, definitions: Readonly<Record<string, Schema>>, path: string): Leaf[] {
  const named = definitions[schema.$ref?.split('/').at(-1) ?? ''] ?? schema
  const description = schema.description ?? named.description
  if (description !== undefined) return [{ path, description }]
  return Object.entries(named.properties ?? {}).flatMap(([name, below]) =>
    leavesOf(below, definitions, path === '' ? name : `${path}.${name}`),
  )
}

function defaultAt(values: unknown, path: string): string {
  const found = path.split('.').reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], values)
  const isNone = found === undefined || found === '' || JSON.stringify(found) === '{}'
  return isNone ? '' : `\`${typeof found === 'object' ? JSON.stringify(found) : String(found)}\``
}
