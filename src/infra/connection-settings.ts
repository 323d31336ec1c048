/** The settings of the connections to PostgreSQL, Temporal, the object store, Valkey and MongoDB: a part of those in config.ts, and what follows from them. */

import Type, { type Static } from 'typebox'
import { type PemKind, pairFaults, readPem, urlFaults } from './crypto/setting-files.ts'
import { INFRA_LIMITS } from './limits.ts'
import { readTemporal, type TemporalAddress, TLS_SETTING } from './temporal/connection.ts'
import type { ValkeyAddress } from './valkey/connect.ts'

/** A setting with a URL. @param scheme a pattern */
export const Url = (description: string, scheme = '[a-z0-9+]+') =>
  Type.String({ pattern: `^${scheme}://.+`, description })

/** A setting with a secret, which may also be given as the path of a file: `<NAME>_FILE`. */
export const Secret = <S extends Type.TSchema>(schema: S): S => Object.assign(schema, { secret: true })

/** A setting that is the path of a file in PEM. */
const Pem = (pem: PemKind, description: string) => Type.Optional(Type.String({ pem, description }))

export const CONNECTION_SETTINGS = {
  DATABASE_APP_URL: Secret(
    Url(
      'URL of PostgreSQL with the login role tenon_app. With TLS: `?sslmode=verify-full&sslrootcert=/path/of/the/authority.pem`.',
      'postgres(ql)?',
    ),
  ),
  DATABASE_BUILDER_URL: Type.Optional(
    Secret(
      Url(
        'URL of PostgreSQL with the login role tenon_builder, which builds indexes. Only the worker needs it.',
        'postgres(ql)?',
      ),
    ),
  ),
  DATABASE_SESSION_URL: Type.Optional(
    Secret(
      Url(
        'URL of PostgreSQL with the login role tenon_app, for connections that must keep their session (elections, locks). Set it if DATABASE_APP_URL leads through a pooler that lends connections for single transactions (PgBouncer: `pool_mode = transaction`): to PostgreSQL itself, or to a pool with `pool_mode = session`. Default: DATABASE_APP_URL.',
        'postgres(ql)?',
      ),
    ),
  ),
  DATABASE_PREPARED_STATEMENTS: Type.Boolean({
    default: true,
    description:
      'False if the pooler of DATABASE_APP_URL does not keep prepared statements (PgBouncer before 1.21, or `max_prepared_statements = 0`): then PostgreSQL parses and plans each statement each time.',
  }),
  DATABASE_POOL_MAX: Type.Integer({
    default: INFRA_LIMITS.poolConnectionsMax,
    minimum: 4,
    maximum: 1_000,
    description:
      'Connections to PostgreSQL that the process keeps for its transactions, at most; a tenant may use half of them. A few more are for elections and index builds (docs/scaling.md).',
  }),
  TEMPORAL_ADDRESS: Type.Optional(
    Type.String({
      pattern: '^[^/]+:[0-9]+$',
      description: 'host:port of Temporal. Required, unless the profile of TEMPORAL_CONFIG_FILE has it.',
    }),
  ),
  TEMPORAL_NAMESPACE: Type.Optional(
    Type.String({
      description: 'Temporal namespace, shared by all tenants. Default: that of the profile, else `default`.',
    }),
  ),
  TEMPORAL_CONFIG_FILE: Type.Optional(
    Type.String({
      description:
        'Path of a file in TOML with profiles, as all programs of Temporal read it: `[profile.<name>]` with `address`, `namespace`, `api_key` and `tls`. Variables that are set win over it. If it is not set, no file is read.',
    }),
  ),
  TEMPORAL_PROFILE: Type.Optional(
    Type.String({ description: 'Profile of TEMPORAL_CONFIG_FILE. Default: the profile `default`.' }),
  ),
  TEMPORAL_API_KEY: Type.Optional(
    Secret(
      Type.String({
        description:
          'API key, sent to Temporal as a bearer token; with TLS, unless TEMPORAL_TLS is false. A key in a file, also in that of the profiles, is read again every 5 seconds, so that it can be replaced without a restart.',
      }),
    ),
  ),
  TEMPORAL_TLS: Type.Optional(TLS_SETTING),
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: Pem(
    'certificate',
    'Path of a file in PEM with the certificates of the authorities by which Temporal is trusted. Default: those of Node for clients, and those of the machine for the worker: set it for an authority of your own.',
  ),
  TEMPORAL_TLS_CLIENT_CERT_PATH: Pem(
    'certificate',
    'Path of a file in PEM with the certificate by which Temporal trusts the platform (mTLS).',
  ),
  TEMPORAL_TLS_CLIENT_KEY_PATH: Pem(
    'key',
    'Path of a file in PEM with the key of the certificate in TEMPORAL_TLS_CLIENT_CERT_PATH.',
  ),
  TEMPORAL_TLS_SERVER_NAME: Type.Optional(
    Type.String({ description: 'Host name in the certificate of Temporal. Default: that of the address.' }),
  ),
  TEMPORAL_DEPLOYMENT_NAME: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'Name of the worker deployment in Temporal, for versions of workers (docs/deploying.md). Set it for API and worker, or for none of them; a version gets work only when an operator has made it current or ramping.',
    }),
  ),
  TEMPORAL_WORKER_BUILD_ID: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Version of this build in TEMPORAL_DEPLOYMENT_NAME, which each worker then needs.',
    }),
  ),
  TEMPORAL_UI_URL: Type.Optional(Url('URL of the Temporal UI, for links in responses.', 'https?')),
  S3_ENDPOINT: Url('Endpoint of S3.', 'https?'),
  S3_STS_ENDPOINT: Type.Optional(
    Url('Endpoint of STS, which opens sessions. Default: S3_ENDPOINT, as SeaweedFS serves both.', 'https?'),
  ),
  S3_REGION: Type.String({
    default: 'us-east-1',
    minLength: 1,
    description: 'Region of S3 and STS, which is part of each signature. Stores of your own accept any.',
  }),
  S3_PATH_STYLE: Type.Boolean({
    default: true,
    description:
      'True for URLs with the bucket in the path, which every store of your own serves; false for buckets as host names.',
  }),
  S3_IDENTITY: Type.Union([Type.Literal('session'), Type.Literal('none')], {
    default: 'session',
    description:
      'session: each workspace has an STS session for its bucket, and the store itself refuses other buckets. none: for stores without STS: the platform uses the root identity for all, so that nothing but its own code separates the objects of workspaces.',
  }),
  S3_ROLE_ARN: Type.String({
    default: 'arn:aws:iam::000000000000:role/tenon-workspace',
    pattern: '^arn:[a-z-]+:iam::[0-9]{12}:role/.+',
    description:
      'Role that sessions assume. Its policy allows objects of the bucket that the session is named after or tagged with (docs/deploying.md).',
  }),
  S3_ACCESS_KEY_ID: Type.String({
    minLength: 1,
    description: 'Access key of the root identity, which creates buckets and opens sessions.',
  }),
  S3_SECRET_ACCESS_KEY: Secret(Type.String({ minLength: 1, description: 'Secret of the root identity.' })),
  S3_CA_FILE: Pem(
    'certificate',
    'Path of a file in PEM with the certificates of the authorities by which S3 and STS are trusted. Default: those of Node.',
  ),
  REDIS_URL: Secret(Url('URL of Valkey or Redis; `rediss://` with TLS.', 'rediss?')),
  REDIS_SENTINELS: Type.Optional(
    Type.String({
      pattern: '^[^,\\s:]+:[0-9]+(,[^,\\s:]+:[0-9]+)*$',
      description:
        'Comma-separated host:port pairs of Sentinels that name the primary. The host in REDIS_URL is then the name by which they watch it: `redis://:password@mymaster`. An event counts as published when a replica has it, too.',
    }),
  ),
  REDIS_SENTINEL_PASSWORD: Type.Optional(
    Secret(Type.String({ minLength: 1, description: 'Password of the Sentinels. Default: none.' })),
  ),
  REDIS_CA_FILE: Pem(
    'certificate',
    'Path of a file in PEM with the certificates of the authorities by which Valkey is trusted. Default: those of Node.',
  ),
  REDIS_CERT_FILE: Pem(
    'certificate',
    'Path of a file in PEM with the certificate by which Valkey trusts the platform. Valkey asks for one unless `tls-auth-clients` is `no`.',
  ),
  REDIS_KEY_FILE: Pem('key', 'Path of a file in PEM with the key of that certificate.'),
  MONGODB_URL: Type.Optional(
    Secret(
      Url(
        'URL of MongoDB, or of a server with its protocol that makes exactly one of several concurrent changes of a version: the log of the API warns at the start if it does not, and `npx tenon doctor` says so. FerretDB 1 does not, and lacks the filters `cd`, and `cs` with objects. Undeclared collections are stored there; by default, in PostgreSQL.',
        'mongodb(\\+srv)?',
      ),
    ),
  ),
}

const Schema = Type.Object(CONNECTION_SETTINGS)
type Settings = Static<typeof Schema>
type Texts = Readonly<Partial<Record<keyof Settings, string>>>

export interface Connections {
  /** Undefined only beside a fault. */
  readonly TEMPORAL: TemporalAddress
  readonly VALKEY: ValkeyAddress
  /** The authorities that certify the object store, as PEM. Undefined: those that Node knows. */
  readonly S3_CA: string | undefined
}

interface Read {
  readonly connections: Connections
  /** A sentence for each. Then not all connections are there. */
  readonly faults: readonly string[]
}

/** Reads the files that the settings name. @param env the environment, in which Temporal has settings of its own */
export function readConnections(settings: Settings, env: Environment): Read {
  const { texts, faults } = readPemFiles(settings)
  if (faults.length === 0) faults.push(...contradictions(settings, texts))
  const temporal = faults.length > 0 ? undefined : tryReadTemporal(env, faults)
  const others = { VALKEY: valkeyOf(settings, texts), S3_CA: texts.S3_CA_FILE }
  return { connections: { TEMPORAL: temporal as TemporalAddress, ...others }, faults }
}

type Environment = Parameters<typeof readTemporal>[0]

function tryReadTemporal(env: Environment, faults: string[]): TemporalAddress | undefined {
  try {
    return readTemporal(env)
  } catch (error) {
    faults.push((error as Error).message)
    return undefined
  }
}

function readPemFiles(settings: Settings): { texts: Texts; faults: string[] } {
  const texts: Record<string, string> = {}
  const faults = Object.entries(CONNECTION_SETTINGS).flatMap(([name, schema]) => {
    const { pem } = schema as { pem?: PemKind }
    const path = settings[name as keyof Settings]
    if (pem === undefined || typeof path !== 'string') return []
    try {
      texts[name] = readPem(name, path, pem)
      return []
    } catch (error) {
      return [(error as Error).message]
    }
  })
  return { texts, faults }
}

/** Certificates that would have no effect, or that do not fit. */
function contradictions(settings: Settings, texts: Texts): string[] {
  const { TEMPORAL_TLS_CLIENT_CERT_PATH: ofPlatform, TEMPORAL_TLS_CLIENT_KEY_PATH: itsKey } = texts
  const { S3_CA_FILE: ofStore, REDIS_CA_FILE: ca, REDIS_CERT_FILE: cert, REDIS_KEY_FILE: key } = texts
  const { S3_ENDPOINT: endpoint = '', REDIS_URL: url = '' } = settings
  const faults = Object.entries(settings).flatMap(([name, value]) =>
    name.startsWith('DATABASE_') && typeof value === 'string' ? urlFaults(name, value) : [],
  )
  if (ofStore !== undefined && !endpoint.startsWith('https:'))
    faults.push('S3_CA_FILE has no effect: S3_ENDPOINT must begin with https://.')
  if ((ca ?? cert ?? key) !== undefined && !url.startsWith('rediss:'))
    faults.push(
      'REDIS_CA_FILE, REDIS_CERT_FILE and REDIS_KEY_FILE have no effect: REDIS_URL must begin with rediss://.',
    )
  if (settings.TEMPORAL_WORKER_BUILD_ID !== undefined && settings.TEMPORAL_DEPLOYMENT_NAME === undefined)
    faults.push('TEMPORAL_WORKER_BUILD_ID has no effect without TEMPORAL_DEPLOYMENT_NAME.')
  return [
    ...faults,
    ...pairFaults(['REDIS_CERT_FILE', cert], ['REDIS_KEY_FILE', key]),
    ...pairFaults(['TEMPORAL_TLS_CLIENT_CERT_PATH', ofPlatform], ['TEMPORAL_TLS_CLIENT_KEY_PATH', itsKey]),
  ]
}

function valkeyOf(settings: Settings, texts: Texts): ValkeyAddress {
  const { REDIS_URL: url = '', REDIS_SENTINELS: list, REDIS_SENTINEL_PASSWORD: sentinelPassword } = settings
  const sentinels = list?.split(',').map((address) => {
    const [host = '', port] = address.split(':')
    return { host, port: Number(port) }
  })
  const { REDIS_CA_FILE: ca, REDIS_CERT_FILE: cert, REDIS_KEY_FILE: key } = texts
  const tls = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }
  return {
    url,
    ...(url.startsWith('rediss:') && { tls }),
    ...(sentinels && { sentinels }),
    ...(sentinelPassword && { sentinelPassword }),
  }
}
