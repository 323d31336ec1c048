/** Every setting of the platform's processes: one schema, read once in each main, all faults at once. */

import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { RATE_PATTERN } from '../core/rate.ts'
import { readIssuers, type TrustedIssuer } from './trusted-issuers.ts'

const Url = (description: string, scheme = '[a-z0-9+]+') =>
  Type.String({ pattern: `^${scheme}://.+`, description })

const PROXY = '(loopback|linklocal|uniquelocal|[0-9A-Fa-f:.]+(/[0-9]{1,3})?)'

const Rate = (usual: string, description: string) =>
  Type.String({ default: usual, pattern: RATE_PATTERN, description })

const ConfigSchema = Type.Object({
  TENON_HOST: Type.String({ default: '127.0.0.1', description: 'Address the API listens on.' }),
  TENON_PORT: Type.Integer({ default: 8787, minimum: 0, maximum: 65_535, description: 'Port of the API.' }),
  TENON_PUBLIC_URL: Type.Optional(Url('Base URL as clients see it; the issuer of tokens.', 'https?')),
  TENON_MASTER_KEY: Type.String({
    pattern: '^[A-Za-z0-9+/]{43}=$',
    description: '32 random bytes in base64. Seals secrets at rest; losing it loses them.',
  }),
  TENON_OPERATOR_SECRET: Type.Optional(
    Type.String({ minLength: 32, description: 'Secret of the client tenon-operator; derived where absent.' }),
  ),
  OIDC_ISSUERS: Type.String({
    default: '',
    description:
      'Issuers whose tokens count besides those of the own one: a JSON list, or the path of a file with it (docs/identity.md).',
  }),
  GATEWAY_SECRET: Type.Optional(
    Type.String({
      minLength: 32,
      description:
        'What a gateway sends as x-gateway-secret with the identity headers that it sets; without it nobody is believed.',
    }),
  ),
  TENON_WORKFLOW_BUNDLE: Type.Optional(
    Type.String({ description: 'Path of a built workflow bundle; built at start where absent.' }),
  ),
  TENON_CHECK_REPLIES: Type.Boolean({
    default: false,
    description: 'Check every reply against its schema (tests); a mismatch is a 500.',
  }),
  DATABASE_APP_URL: Url('PostgreSQL, as the login role tenon_app.', 'postgres(ql)?'),
  DATABASE_BUILDER_URL: Type.Optional(
    Url(
      'PostgreSQL, as the login role tenon_builder. For the worker alone: it builds indexes.',
      'postgres(ql)?',
    ),
  ),
  TEMPORAL_ADDRESS: Type.String({ pattern: '^[^/]+:[0-9]+$', description: 'host:port of Temporal.' }),
  TEMPORAL_NAMESPACE: Type.String({ default: 'default', description: 'Namespace shared by all tenants.' }),
  TEMPORAL_UI_URL: Type.Optional(Url('Temporal UI, for links in answers.', 'https?')),
  S3_ENDPOINT: Url('S3 and IAM endpoint.', 'https?'),
  S3_ACCESS_KEY_ID: Type.String({
    minLength: 1,
    description: 'Root identity: makes buckets and identities.',
  }),
  S3_SECRET_ACCESS_KEY: Type.String({ minLength: 1, description: 'Secret of the root identity.' }),
  REDIS_URL: Url('Valkey or Redis.', 'rediss?'),
  MONGODB_URL: Type.Optional(
    Url('MongoDB, or what speaks its protocol: the store of undeclared collections.', 'mongodb(\\+srv)?'),
  ),
  TENON_EGRESS_ALLOW: Type.String({
    default: '',
    pattern: '^$|^[^,\\s]+:[0-9]+(,[^,\\s]+:[0-9]+)*$',
    description: 'host:port,… that flows may reach although they are not public.',
  }),
  TENON_DENO_BIN: Type.Optional(
    Type.String({ description: 'Path of Deno 2, which runs functions; without it they answer 503.' }),
  ),
  TENON_STARTS_SOCKET: Type.Optional(
    Type.String({
      pattern: '^/.{1,99}$',
      description:
        'Path of a Unix socket by which the API hands starts of runs to a worker of its machine, which then has their first tasks at once; without it all starts go to Temporal alone.',
    }),
  ),
  TENON_SDK_PATCHES: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    default: 'on',
    description:
      'off: workers run Temporal’s SDK as it is, slower and without fair shares of the workflow thread.',
  }),
  TENON_CACHED_RUNS: Type.Optional(
    Type.Integer({
      minimum: 0,
      description:
        'Runs whose state each worker keeps between their steps; others are read from their history, and with 0 one run is at work at a time. By its memory where absent.',
    }),
  ),
  TENON_MCP_ORIGINS: Type.String({
    default: '',
    pattern: '^$|^https?://[^,/\\s]+(,https?://[^,/\\s]+)*$',
    description: 'Origins,… of web pages that may call MCP servers, besides the public one.',
  }),
  TENON_MCP_HOSTS: Type.String({
    default: '',
    pattern: '^$|^[A-Za-z0-9.-]+(:[0-9]+)?(,[A-Za-z0-9.-]+(:[0-9]+)?)*$',
    description:
      'Values of `Host`,… under which MCP servers answer besides that of the public URL and loopback names, as `tenon.internal` or `api:8787`.',
  }),
  TENON_RATE_SERVICE: Rate(
    '1200/min',
    'Requests of each service key, as `300/min burst 30`: so many a minute, so many of them at once (all where absent).',
  ),
  TENON_RATE_ANON: Rate('3000/min burst 300', 'Of each anon key: of all its users together.'),
  TENON_RATE_ANON_ADDRESS: Rate(
    '300/min burst 30',
    'Of each client address with the anon keys of a tenant; /64 of IPv6.',
  ),
  TENON_RATE_ADMIN: Rate('120/min', 'Of each subject of a token on administrative routes.'),
  TENON_RATE_MCP: Rate('300/min burst 60', 'Of each subject at the hosted MCP servers of a tenant.'),
  TENON_RATE_WEBHOOK: Rate('600/min burst 120', 'Of each client address at one webhook.'),
  TENON_RATE_TENANT: Rate('6000/min', 'Of each tenant, whoever asks.'),
  TENON_RATE_PUBLIC: Rate(
    '300/min burst 60',
    'Of each client address where no credential is needed: sign-in, documentation, /readyz.',
  ),
  TENON_RATE_REFUSED: Rate(
    '60/min burst 30',
    'API keys of each client address that may be refused, and calls of hosted MCP servers without a token; beyond it the database is not asked. Counted by each process.',
  ),
  TENON_STREAMS_PER_TENANT: Type.Integer({
    default: 200,
    minimum: 0,
    description: 'Open event streams of a tenant.',
  }),
  TENON_STREAMS_PER_ADDRESS: Type.Integer({
    default: 5,
    minimum: 0,
    description: 'Open event streams of each client address with the anon keys of a tenant.',
  }),
  TENON_TRUSTED_PROXIES: Type.String({
    default: '',
    pattern: `^$|^${PROXY}(,${PROXY})*$`,
    description:
      'Addresses, networks (10.0.0.0/8) or `loopback`,… whose X-Forwarded-For says who the client is. Empty: the socket does.',
  }),
  LOG_LEVEL: Type.Union(
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'].map((level) => Type.Literal(level)),
    { default: 'info', description: 'Least level that is logged.' },
  ),
})

type Settings = Static<typeof ConfigSchema>

export type Config = Readonly<Omit<Settings, 'OIDC_ISSUERS'> & { OIDC_ISSUERS: readonly TrustedIssuer[] }>

/** What is wrong with the environment, a line per variable. Values are never shown: some are secrets. */
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
 * @throws ConfigError naming every bad variable at once
 */
export function parseConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const given = Object.fromEntries(
    Object.keys(ConfigSchema.properties).flatMap((name) => (env[name] ? [[name, env[name]]] : [])),
  )
  const value = Value.Convert(ConfigSchema, Value.Default(ConfigSchema, given))
  const faults = Object.entries(ConfigSchema.properties).flatMap(([name, schema]) =>
    fault(name, schema, value),
  )
  const settings = value as Settings
  const { issuers, faults: ofIssuers } = readIssuers(settings.OIDC_ISSUERS)
  faults.push(...ofIssuers.map((fault) => `OIDC_ISSUERS${fault}`))
  if (faults.length > 0) throw new ConfigError(faults)
  const config = Object.freeze({ ...settings, OIDC_ISSUERS: issuers })
  if (issuers.some(({ issuer }) => issuer === issuerUrl(config)))
    throw new ConfigError(['OIDC_ISSUERS names the platform’s own issuer, which needs no entry.'])
  return config
}

function fault(name: string, schema: Type.TSchema & { description?: string }, value: unknown): string[] {
  const field = (value as Record<string, unknown>)[name]
  const optional = !ConfigSchema.required.includes(name as never)
  if (field === undefined) return optional ? [] : [`${name} is missing. ${schema.description ?? ''}`]
  if (Value.Check(schema, field)) return []
  const [first] = Value.Errors(schema, field)
  return [`${name} ${first?.message ?? 'is not valid'}. ${schema.description ?? ''}`]
}

/** Base URL as clients see it. */
export function publicUrl(config: Config): string {
  return (config.TENON_PUBLIC_URL ?? `http://${config.TENON_HOST}:${config.TENON_PORT}`).replace(/\/$/, '')
}

/** The embedded issuer, as tokens name it. */
export const issuerUrl = (config: Config): string => `${publicUrl(config)}/auth`

/** The settings as a table for docs/reference/config.md. */
export function describeConfig(): { name: string; default: string; description: string }[] {
  return Object.entries(ConfigSchema.properties).map(([name, schema]) => {
    const { default: value, description } = schema as { default?: unknown; description?: string }
    const required = ConfigSchema.required.includes(name as never) && value === undefined
    return { name, default: required ? '(required)' : String(value ?? ''), description: description ?? '' }
  })
}
