/**
 * The settings of the platform's processes: one schema; each process reads it once and reports all errors together. After a
 * change, run `npm run reference`, which generates docs/reference/config.md; tests are in test/unit/access and
 * test/integration/stack/start-requirements.test.ts.
 */

import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { RATE_PATTERN } from '../core/units.ts'
import { CONNECTION_SETTINGS, type Connections, readConnections, Secret, Url } from './connection-settings.ts'
import { MASTER_KEY_PATTERN, parseMasterKeys } from './crypto/master-keys.ts'
import { withSecretFiles } from './crypto/setting-files.ts'
import { type DevServers, readDevServers } from './dev-stdio-servers.ts'
import type { KeycloakSettings } from './keycloak.ts'
import { readIssuers, type TrustedIssuer } from './trusted-issuers.ts'

const PROXY = '(loopback|linklocal|uniquelocal|[0-9A-Fa-f:.]+(/[0-9]{1,3})?)'

const DNS_SERVER = '([0-9.]{7,15}(:[0-9]{1,5})?|[0-9A-Fa-f:.]+|\\[[0-9A-Fa-f:.]+\\](:[0-9]{1,5})?)'

const Rate = (usual: string, description: string) =>
  Type.String({ default: usual, pattern: RATE_PATTERN, description })

const ConfigSchema = Type.Object({
  TENON_HOST: Type.String({
    default: '127.0.0.1',
    description: 'Address on which the API listens. `localhost`: 127.0.0.1 and ::1.',
  }),
  TENON_PORT: Type.Integer({ default: 8787, minimum: 0, maximum: 65_535, description: 'Port of the API.' }),
  TENON_OPS_LISTEN: Type.Optional(
    Type.String({
      pattern: '^(\\[[0-9A-Fa-f:.]+\\]|[^\\s:/\\[\\]]+):[0-9]{1,5}$',
      description:
        'host:port of a second HTTP server for operators, which API and worker open each by itself: /metrics, /healthz, /readyz with the findings as sentences, /startupz, /version, without credentials. Keep it on a private network; processes on one machine need different ports. If it is not set, there is none, and no metrics are kept.',
    }),
  ),
  TENON_DRAIN_DELAY: Type.Integer({
    default: 5,
    minimum: 0,
    maximum: 600,
    description:
      'Seconds after SIGTERM for which the API answers 503 at /readyz and serves everything else, each response with `Connection: close`, so that balancers and clients leave. Longer than their probes take to fail.',
  }),
  TENON_DRAIN_LIMIT: Type.Integer({
    default: 70,
    minimum: 0,
    maximum: 3_600,
    description:
      'Seconds that running requests (API) and steps of flows and functions (worker) have to end after that; then they are cut off. An orchestrator must wait for longer than both times before it kills a process.',
  }),
  TENON_PUBLIC_URL: Type.Optional(
    Url('Base URL under which clients reach the API; also the issuer of tokens.', 'https?'),
  ),
  TENON_MASTER_KEY: Secret(
    Type.String({
      pattern: `^${MASTER_KEY_PATTERN}(,${MASTER_KEY_PATTERN})*$`,
      description:
        '32 random bytes in base64. Encrypts secrets at rest; without it they cannot be recovered. While it is replaced, several with commas between them: the first one encrypts, all of them decrypt (docs/keys-and-kms.md).',
    }),
  ),
  TENON_KEY_PROVIDER: Type.Union([Type.Literal('env'), Type.Literal('file'), Type.Literal('kms')], {
    default: 'env',
    description:
      'Source of the master keys. env: TENON_MASTER_KEY. file: TENON_MASTER_KEY_FILE, also the default if that is set. kms: either one has keys that AWS KMS has wrapped, and each process unwraps them when it starts.',
  }),
  TENON_MASTER_KEY_FILE: Type.Optional(
    Type.String({ description: 'Path of a file with the master keys, one a line: the first one encrypts.' }),
  ),
  TENON_KMS_KEY_ID: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'Key of AWS KMS (id, ARN or alias) that wraps the master keys. Region and credentials are those of the AWS SDK: AWS_REGION, a role of the machine or pod.',
    }),
  ),
  TENON_OPERATOR_SECRET: Type.Optional(
    Secret(
      Type.String({
        minLength: 32,
        description: 'Secret of the OAuth client tenon-operator. Default: derived from TENON_MASTER_KEY.',
      }),
    ),
  ),
  OIDC_ISSUERS: Type.String({
    default: '',
    description:
      'External issuers whose tokens are accepted: a JSON list, or the path of a file that contains it (docs/identity.md).',
  }),
  GATEWAY_SECRET: Type.Optional(
    Secret(
      Type.String({
        minLength: 32,
        description:
          'Secret that a gateway sends as x-gateway-secret with its identity headers. If it is not set, identity headers are rejected.',
      }),
    ),
  ),
  TENON_WORKFLOW_BUNDLE: Type.Optional(
    Type.String({ description: 'Path of a built workflow bundle. Default: built at start.' }),
  ),
  TENON_DOCS_DIR: Type.Optional(
    Type.String({
      description:
        'Folder of the built documentation, which the API serves at `/docs`. The image has one. Default: pages of problems and diagnostics alone.',
    }),
  ),
  TENON_VALIDATE_RESPONSES: Type.Boolean({
    default: false,
    description: 'True to validate every response against its schema, for tests. A mismatch answers 500.',
  }),
  ...CONNECTION_SETTINGS,
  TENON_S3_HOST: Type.Optional(
    Type.String({
      pattern: '^[a-z0-9.-]{1,200}$',
      description:
        'Host name below which buckets are host names for clients of the S3 API: with `s3.example.com`, `https://<bucket>.s3.example.com/<key>` is the same as `<API>/s3/<bucket>/<key>`. The certificate and DNS must cover `*.s3.example.com`. If it is not set, only paths name buckets.',
    }),
  ),
  TENON_DNS_SERVERS: Type.String({
    default: '',
    pattern: `^$|^${DNS_SERVER}(,${DNS_SERVER})*$`,
    description:
      'Comma-separated addresses of the DNS servers that proofs of host names are looked up at, with a port if it is not 53: `10.0.0.2`, `[2001:db8::2]:5353`. Empty: those of the machine.',
  }),
  TENON_CADDY_ADMIN_URL: Type.Optional(
    Url(
      'URL of the admin API of a Caddy that gets a route for each host name of a workspace (docs/host-names.md). The API controls the gateway: keep it on a private network. If it is not set, no routes are made.',
      'https?',
    ),
  ),
  TENON_CADDY_SERVER: Type.String({
    default: 'srv0',
    pattern: '^[A-Za-z0-9_-]{1,64}$',
    description:
      'Name of the HTTP server in the configuration of Caddy that gets the routes; `srv0` is the first one of a Caddyfile.',
  }),
  TENON_CADDY_UPSTREAM: Type.Optional(
    Type.String({
      pattern: '^[^/\\s]+:[0-9]+$',
      description: 'host:port at which Caddy reaches the API. Default: TENON_HOST and TENON_PORT.',
    }),
  ),
  TENON_KEYCLOAK_URL: Type.Optional(
    Url(
      'Base URL of a Keycloak in which each tenant gets an organization, such as `https://id.example.com` (docs/identity.md). If it is not set, none are made.',
      'https?',
    ),
  ),
  TENON_KEYCLOAK_REALM: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Realm of these organizations; needed with TENON_KEYCLOAK_URL.',
    }),
  ),
  TENON_KEYCLOAK_CLIENT_ID: Type.String({
    default: 'tenon',
    minLength: 1,
    description:
      'Client of that realm with a service account that has the role `manage-organizations` of `realm-management`.',
  }),
  TENON_KEYCLOAK_CLIENT_SECRET: Type.Optional(
    Secret(
      Type.String({ minLength: 1, description: 'Secret of that client; needed with TENON_KEYCLOAK_URL.' }),
    ),
  ),
  TENON_EGRESS_ALLOWLIST: Type.String({
    default: '',
    pattern: '^$|^[^,\\s]+:([0-9]+|\\*)(,[^,\\s]+:([0-9]+|\\*))*$',
    description:
      'Comma-separated host:port pairs that flows and sources of MCP tools may reach although their addresses are not public; `host:*` for all ports.',
  }),
  TENON_DENO_BIN: Type.Optional(
    Type.String({
      description:
        'Path of the Deno 2 executable, which runs functions. If it is not set, invocations answer 503.',
    }),
  ),
  TENON_CONTAINER_ENGINE: Type.Optional(
    Type.String({
      pattern: '^(docker|podman|/[^\\s]+)$',
      description:
        'Container engine that runs images of tenants as MCP servers: `docker`, `podman`, or the path of one. It pulls nothing: only images that an operator has pulled are run. If it is not set, such sources are refused.',
    }),
  ),
  TENON_DEV_STDIO_SERVERS: Type.String({
    default: '',
    description:
      'Commands of MCP servers that run on this machine without isolation, as JSON: `{"echo": ["node", "/path/server.mjs"]}` for the image `dev:echo`. For development: refused unless TENON_HOST and TENON_PUBLIC_URL are loopback addresses.',
  }),
  TENON_EAGER_START_SOCKET: Type.Optional(
    Type.String({
      pattern: '^/.{1,99}$',
      description:
        'Path of the Unix socket through which the API starts executions at a worker on the same machine, which gets their first workflow tasks with the response (eager start). If it is not set, all starts go through Temporal alone.',
    }),
  ),
  TENON_SDK_PATCHES: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    default: 'on',
    description:
      'off: the Temporal SDK is used without our patches: workers are slower and do not share the workflow thread fairly between tenants, and TENON_EAGER_START_SOCKET has no effect on the API.',
  }),
  TENON_MAX_CACHED_WORKFLOWS: Type.Optional(
    Type.Integer({
      minimum: 0,
      description:
        'Workflows cached per worker; others are replayed from their history. 0 disables caching and runs one workflow task at a time. Default: derived from the available memory.',
    }),
  ),
  SMTP_URL: Type.Optional(
    Secret(
      Url(
        'SMTP server for mails to approvers and users, with credentials if it needs them: smtps://user:password@host:465.',
        'smtps?',
      ),
    ),
  ),
  TENON_MAIL_FROM: Type.String({
    default: 'Tenon <tenon@localhost>',
    pattern: '^[^\\r\\n]{3,320}$',
    description: 'Address of the sender of mails.',
  }),
  TENON_MAIL_DIR: Type.Optional(
    Type.String({
      description:
        'Folder for mails as .eml files, if SMTP_URL is not set; loopback clients read them at /dev/mail. For development.',
    }),
  ),
  TENON_SIGN_INS_PER_ADDRESS: Type.Integer({
    default: 60,
    minimum: 1,
    description:
      'Failed attempts to sign in, for any accounts and users, that clients of one address (IPv6: /64) may make in 15 minutes. Counted per process.',
  }),
  TENON_REGISTRATIONS_PER_ADDRESS: Type.Integer({
    default: 100,
    minimum: 1,
    description:
      'OAuth clients that may register themselves from one address (IPv6: /64) in 15 minutes; also documents of clients that are read for it. Agents of an office share an address. Counted per process.',
  }),
  TENON_CLIENT_ID_HOSTS: Type.String({
    default: '',
    pattern: '^$|^[^,\\s]+:[0-9]+(,[^,\\s]+:[0-9]+)*$',
    description:
      'Comma-separated host:port pairs of client IDs that are URLs (client ID metadata documents) although their addresses are not public; those of loopback addresses may then be http. For development and internal clients.',
  }),
  TENON_USER_MAILS_PER_ADDRESS: Type.Integer({
    default: 20,
    minimum: 1,
    description:
      'Mails to users of a workspace (sign-up, reset of a password, change of address) that clients of one address (IPv6: /64) may cause per hour. Counted per process.',
  }),
  TENON_USER_MAILS_PER_WORKSPACE: Type.Integer({
    default: 1_000,
    minimum: 1,
    description: 'Mails to users of one workspace per hour, from all client addresses together.',
  }),
  TENON_MCP_ORIGINS: Type.String({
    default: '',
    pattern: '^$|^https?://[^,/\\s]+(,https?://[^,/\\s]+)*$',
    description:
      'Comma-separated origins of web pages that may call MCP servers, in addition to TENON_PUBLIC_URL.',
  }),
  TENON_OBJECT_BYTES_MAX: Type.Integer({
    default: 53_687_091_200,
    minimum: 5_368_709_120,
    maximum: 5_497_558_138_880,
    description:
      'Bytes of an object that is uploaded in several requests: in parts, or by tus. A larger one is refused with `EntityTooLarge`. An object of one request has at most 5 GiB.',
  }),
  TENON_OPERATOR_SEES_PAYLOADS: Type.Boolean({
    default: false,
    description:
      'True if the client `tenon-operator` (`tenon token`) sees payloads of executions and runs that others have started. Each look is in the audit log of the tenant. A local platform sets it (`npm start`).',
  }),
  TENON_MCP_HOSTS: Type.String({
    default: '',
    pattern: '^$|^[A-Za-z0-9.-]+(:[0-9]+)?(,[A-Za-z0-9.-]+(:[0-9]+)?)*$',
    description:
      'Comma-separated values of the `Host` header that MCP servers accept, such as `tenon.internal` or `api:8787`, in addition to the host of TENON_PUBLIC_URL and loopback names.',
  }),
  TENON_RATE_SERVICE: Rate(
    '1200/min burst 300',
    'Rate limit per service key. `300/min burst 30` means 300 requests per minute, at most 30 of them at once. Without `burst`, all 300 may come at once.',
  ),
  TENON_RATE_USER: Rate('600/min burst 100', 'Rate limit per end user.'),
  TENON_RATE_ANON: Rate('3000/min burst 300', 'Rate limit per anon key, for all its users together.'),
  TENON_RATE_ANON_ADDRESS: Rate(
    '1200/min burst 200',
    'Rate limit per client address (IPv6: per /64) with the anon keys of a tenant; an office may share one.',
  ),
  TENON_RATE_ADMIN: Rate('120/min', 'Rate limit per token subject on administrative routes.'),
  TENON_RATE_FLOWS: Rate(
    '1200/min burst 300',
    'Rate limit per service key for starting, reading and approving executions, beside TENON_RATE_SERVICE.',
  ),
  TENON_RATE_MCP: Rate('300/min burst 60', 'Rate limit per subject at the hosted MCP servers of a tenant.'),
  TENON_RATE_WEBHOOK: Rate('600/min burst 120', 'Rate limit per client address and webhook.'),
  TENON_RATE_TENANT: Rate('6000/min burst 1000', 'Rate limit per tenant, for all its callers together.'),
  TENON_RATE_PUBLIC: Rate(
    '300/min burst 60',
    'Rate limit per client address on routes without credentials: sign-in, documentation. Probes such as /readyz are not limited.',
  ),
  TENON_RATE_AUTH_FAILURES: Rate(
    '60/min burst 30',
    'Unknown API keys and unauthenticated MCP calls per client address; beyond this they are rejected without a database lookup. Counted per process.',
  ),
  TENON_STREAMS_PER_TENANT: Type.Integer({
    default: 200,
    minimum: 0,
    description: 'Maximum of open event streams per tenant.',
  }),
  TENON_STREAMS_PER_ADDRESS: Type.Integer({
    default: 100,
    minimum: 0,
    description: 'Maximum of open event streams per client address with the anon keys of a tenant.',
  }),
  TENON_TRUSTED_PROXIES: Type.String({
    default: '',
    pattern: `^$|^${PROXY}(,${PROXY})*$`,
    description:
      'Comma-separated addresses, networks (10.0.0.0/8) or `loopback` whose X-Forwarded-For header is trusted. Empty: the client address is that of the socket.',
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: Type.Optional(
    Url(
      'Base URL of an OpenTelemetry collector, which gets the spans of API and worker at `<url>/v1/traces` (OTLP over HTTP, JSON). `OTEL_EXPORTER_OTLP_HEADERS` is sent with them. Spans of a request whose `traceparent` says that its sender records nothing are not recorded. If it is not set, there are no spans.',
      'https?',
    ),
  ),
  LOG_LEVEL: Type.Union(
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'].map((level) => Type.Literal(level)),
    { default: 'info', description: 'Lowest level that is logged.' },
  ),
})

type Settings = Static<typeof ConfigSchema>

/** The JSON Schema of each setting, for the chart. */
export const SETTINGS: Readonly<Record<string, object>> = Object.fromEntries(
  Object.entries<object>(ConfigSchema.properties).map(([name, marked]) => {
    const { secret: _, pem: __, ...schema } = marked as { secret?: true; pem?: string }
    return [name, schema]
  }),
)

/** True for a setting of API and worker. */
export const isSetting = (name: string): boolean => Object.hasOwn(ConfigSchema.properties, name)

/** Settings that may be given as a file. TENON_MASTER_KEY_FILE is a setting of its own (crypto/key-provider.ts). */
export const SECRET_SETTINGS: readonly string[] = Object.entries(ConfigSchema.properties).flatMap(
  ([name, schema]) => (Object.hasOwn(schema, 'secret') && !isSetting(`${name}_FILE`) ? [name] : []),
)

export type Config = Readonly<
  Omit<Settings, 'OIDC_ISSUERS' | 'TENON_DEV_STDIO_SERVERS'> & {
    OIDC_ISSUERS: readonly TrustedIssuer[]
    TENON_DEV_STDIO_SERVERS: DevServers
    /** Undefined if the installation has none. */
    TENON_KEYCLOAK: KeycloakSettings | undefined
  } & Connections
>

/** Errors in the environment, one line per variable. It never shows values, since some are secrets. */
export class ConfigError extends Error {
  readonly faults: readonly string[]
  constructor(faults: readonly string[]) {
    super(`The configuration is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`)
    this.name = 'ConfigError'
    this.faults = faults
  }
}

/**
 * Reads the configuration. An empty variable counts as absent.
 * @throws ConfigError with every invalid variable
 */
export function parseConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const { env, faults: unread } = withSecretFiles(environment, SECRET_SETTINGS)
  const variables = Object.fromEntries(
    Object.keys(ConfigSchema.properties).flatMap((name) => (env[name] ? [[name, env[name]]] : [])),
  )
  const value = Value.Convert(ConfigSchema, Value.Default(ConfigSchema, variables))
  const faults = Object.entries(ConfigSchema.properties).flatMap(([name, schema]) => {
    const ofFile = unread.get(name)
    return ofFile === undefined ? fault(name, schema, value) : [ofFile]
  })
  const settings = value as Settings
  const { connections, faults: ofConnections } = readConnections(settings, environment)
  faults.push(...ofConnections)
  if (faults.length === 0) faults.push(...masterKeyFaults(settings.TENON_MASTER_KEY))
  const { issuers, faults: ofIssuers } = readIssuers(settings.OIDC_ISSUERS)
  faults.push(...ofIssuers.map((fault) => `OIDC_ISSUERS${fault}`))
  const development = readDevServers(settings.TENON_DEV_STDIO_SERVERS, [
    `http://${settings.TENON_HOST}`,
    publicUrl(settings),
  ])
  faults.push(...development.faults.map((fault) => `TENON_DEV_STDIO_SERVERS ${fault}`))
  if (settings.TENON_KEYCLOAK_URL !== undefined && keycloakOf(settings) === undefined)
    faults.push('TENON_KEYCLOAK_URL needs TENON_KEYCLOAK_REALM and TENON_KEYCLOAK_CLIENT_SECRET.')
  if (faults.length > 0) throw new ConfigError([...new Set(faults)])
  const config = Object.freeze({
    ...settings,
    OIDC_ISSUERS: issuers,
    TENON_DEV_STDIO_SERVERS: development.servers,
    TENON_KEYCLOAK: keycloakOf(settings),
    ...connections,
  })
  if (issuers.some(({ issuer }) => issuer === issuerUrl(config)))
    throw new ConfigError(['OIDC_ISSUERS must not name the issuer of the platform, which is always trusted.'])
  return config
}

function keycloakOf(settings: Settings): KeycloakSettings | undefined {
  const { TENON_KEYCLOAK_URL: url, TENON_KEYCLOAK_REALM: realm } = settings
  const { TENON_KEYCLOAK_CLIENT_ID: clientId, TENON_KEYCLOAK_CLIENT_SECRET: clientSecret } = settings
  if (url === undefined || realm === undefined || clientSecret === undefined) return undefined
  return { url, realm, clientId, clientSecret }
}

function fault(name: string, schema: Type.TSchema & { description?: string }, value: unknown): string[] {
  const field = (value as Record<string, unknown>)[name]
  const optional = !ConfigSchema.required.includes(name as never)
  if (field === undefined) return optional ? [] : [`${name} is missing. ${schema.description ?? ''}`]
  if (Value.Check(schema, field)) return []
  const [first] = Value.Errors(schema, field)
  return [`${name} ${first?.message ?? 'is not valid'}. ${schema.description ?? ''}`]
}

function masterKeyFaults(masterKeys: string): string[] {
  try {
    parseMasterKeys(masterKeys)
    return []
  } catch (error) {
    return [`TENON_MASTER_KEY is not valid. ${(error as Error).message}`]
  }
}

/** Base URL under which clients reach the API, without a trailing slash. */
export function publicUrl(config: Pick<Config, 'TENON_PUBLIC_URL' | 'TENON_HOST' | 'TENON_PORT'>): string {
  return (config.TENON_PUBLIC_URL ?? `http://${config.TENON_HOST}:${config.TENON_PORT}`).replace(/\/$/, '')
}

/** The `iss` of tokens of the embedded issuer. */
export const issuerUrl = (config: Config): string => `${publicUrl(config)}/auth`

/** The settings as a table for docs/reference/config.md. */
export function describeConfig(): { name: string; default: string; description: string }[] {
  return Object.entries(ConfigSchema.properties).map(([name, schema]) => {
    const { default: value, description } = schema as { default?: unknown; description?: string }
    const required = ConfigSchema.required.includes(name as never) && value === undefined
    const orFile = SECRET_SETTINGS.includes(name) ? ` Or a file that holds it: \`${name}_FILE\`.` : ''
    return {
      name,
      default: required ? '(required)' : String(value ?? ''),
      description: `${description ?? ''}${orFile}`,
    }
  })
}
