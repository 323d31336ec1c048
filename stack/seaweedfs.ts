/** Starts SeaweedFS as one process, of which only the S3 port, with STS, takes requests from anything but itself. */

import { rmSync, statSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  BucketAlreadyExists,
  BucketAlreadyOwnedByYou,
  CreateBucketCommand,
  ListBucketsCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { execute } from './binaries.mjs'
import { ensureCertificate } from './certificate.ts'
import {
  embedded,
  hostOf,
  program,
  repeatedly,
  type Server,
  type StartContext,
  type Started,
} from './server.ts'

const PREFERRED_S3_PORT = 8_333
const PREFERRED_INNER_PORT = 28_330
const PROBE_MS = 3_000
/** Longer than a busy machine takes for a write. */
const ALIVE_MS = 10_000
const ALIVE_EVERY_MS = 15_000
/** Each role also listens for gRPC, by default on a port 10,000 higher; an explicit one can be any free port. */
const ROLES = ['master', 'volume', 'filer', 's3']
/** Bucket that every start writes to. No workspace can have a name with a dot (core/object-key.ts). */
const READINESS_BUCKET = 'tenon.readiness'

interface Identity {
  readonly endpoint: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

export const seaweedfs: Server = {
  name: 'seaweedfs',
  title: 'SeaweedFS',
  urlVariable: 'S3_ENDPOINT',
  start,
  inspect: async (endpoint, env) => {
    const accessKeyId = env['S3_ACCESS_KEY_ID']
    const secretAccessKey = env['S3_SECRET_ACCESS_KEY']
    if (!accessKeyId || !secretAccessKey)
      throw new Error('S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY must be set')
    const identity = { endpoint, accessKeyId, secretAccessKey }
    const version = await withS3(identity, listBuckets)
    return {
      info: { name: 'seaweedfs', title: 'S3', version, address: hostOf(endpoint), origin: 'external' },
      env: environment(identity),
    }
  },
}

async function start(context: StartContext): Promise<Started> {
  const command = await program('weed', context)
  const dir = join(context.dir, 'seaweedfs')
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const text = await execute(command, ['version'], { timeoutMs: 60_000 })
  const version = /\d+\.\d+/.exec(text.replace(/\d+GB/, ''))?.[0] ?? ''
  ensureCertificate(certificateIn(dir))
  return repeatedly(context, 'SeaweedFS', () => run(context, command, { dir, version }))
}

const certificateIn = (dir: string) => join(dir, 'certificate.pem')

async function run(
  context: StartContext,
  command: string,
  { dir, version }: { readonly dir: string; readonly version: string },
): Promise<Started> {
  const ports = await takePorts(context)
  const identity = {
    endpoint: `http://127.0.0.1:${ports['s3.port']}`,
    accessKeyId: context.secrets.s3AccessKeyId,
    secretAccessKey: context.secrets.s3SecretAccessKey,
  }
  await context.supervisor.run({
    name: 'seaweedfs',
    command,
    args: [
      '-logtostderr',
      'server',
      ...options(dir),
      `-s3.iam.config=${writeRoles(dir, identity.accessKeyId)}`,
      ...Object.entries(ports).map(([name, port]) => `-${name}=${port}`),
    ],
    env: {
      // The root identity.
      AWS_ACCESS_KEY_ID: identity.accessKeyId,
      AWS_SECRET_ACCESS_KEY: identity.secretAccessKey,
      // A new bucket gets one volume instead of seven.
      WEED_MASTER_VOLUME_GROWTH_COPY_1: '1',
      HOME: dir,
      ...security(certificateIn(dir), context.secrets.s3SigningKey),
    },
    logFile: join(context.dir, 'logs', 'seaweedfs.log'),
    stage: 0,
    // It closes its volumes in 200 ms; then the filer waits for its own subscribers without end.
    graceMs: 800,
    ready: () => withS3(identity, createAndWrite),
    // Its master can stop answering for good while all its ports are open.
    liveness: { probe: () => withS3(identity, answer, ALIVE_MS), everyMs: ALIVE_EVERY_MS, failuresMax: 4 },
  })
  const about = { version, address: hostOf(identity.endpoint) }
  return {
    info: embedded(context, { name: 'seaweedfs', title: 'SeaweedFS', ...about }),
    env: environment(identity),
    dispose: async () => {
      for (const socket of Object.values(ports).flatMap(socketsOf)) rmSync(socket, { force: true })
    },
  }
}

function options(dir: string): string[] {
  return [
    ...[`-dir=${dir}`, '-filer', '-s3', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', '-master.telemetry=false'],
    // Master and filer have no HTTP API. By default, S3 allows pages of all origins to read responses.
    ...['-disableHttp', '-s3.allowedOrigins=http://closed.invalid'],
    // IAM refuses writes: sessions need no users. By default, two instances conflict on the ports of Iceberg and Lance.
    ...['-s3.iam.readOnly=true', '-s3.port.iceberg=0', '-s3.port.lance=0'],
    // With one candidate there is no reason for the default election of up to 20 s after a kill.
    ...['-master.electionTimeout=50ms', '-master.heartbeatInterval=10ms'],
    // By default the free disk, in units of 30 GB, limits how many buckets can hold anything: each takes one volume, and
    // another one for each GB. Nothing is allocated ahead.
    ...['-master.volumeSizeLimitMB=1024', '-volume.max=25000'],
    // By default, it serves for 10 s after the signal to stop.
    '-volume.preStopSeconds=0',
  ]
}

/**
 * Builds the settings of security.toml: every port except S3 accepts only TLS with this certificate, over HTTP and gRPC,
 * and each HTTP request needs a token. deploy/seaweedfs/security.toml has the same settings.
 * @param certificate path of a PEM file with key and certificate
 */
export function security(certificate: string, signingKey: string): Record<string, string> {
  const pair = (section: string) => ({
    [`WEED_${section}_CERT`]: certificate,
    [`WEED_${section}_KEY`]: certificate,
  })
  const grpc = ['MASTER', 'VOLUME', 'FILER', 'S3', 'CLIENT'].map((role) => pair(`GRPC_${role}`))
  const https = ['MASTER', 'VOLUME', 'FILER', 'CLIENT'].map((role) => ({
    ...pair(`HTTPS_${role}`),
    [`WEED_HTTPS_${role}_CA`]: certificate,
  }))
  return Object.assign(
    {
      WEED_GRPC_CA: certificate,
      WEED_HTTPS_CLIENT_ENABLED: 'true',
      // Different keys, so that a token for reading cannot write.
      WEED_JWT_SIGNING_KEY: `volume-write-${signingKey}`,
      WEED_JWT_SIGNING_READ_KEY: `volume-read-${signingKey}`,
      WEED_JWT_FILER_SIGNING_KEY: `filer-write-${signingKey}`,
      WEED_JWT_FILER_SIGNING_READ_KEY: `filer-read-${signingKey}`,
    },
    ...grpc,
    ...https,
  )
}

/**
 * Writes the role that sessions assume, and who may assume it: the root identity alone. `${aws:username}` is the name of the
 * session, which the platform sets to the bucket, so that the role by itself reaches no other bucket. The store signs sessions
 * with its key for writing to the filer. deploy/seaweedfs/iam.json has the same roles.
 * @returns the path of the file
 */
function writeRoles(dir: string, rootAccessKeyId: string): string {
  const path = join(dir, 'iam.json')
  writeFileSync(path, `${JSON.stringify(roles(rootAccessKeyId), null, 2)}\n`, { mode: 0o600 })
  return path
}

/** As the session policy of the platform has them (src/infra/s3/sessions.ts). */
const OBJECT_ACTIONS = [
  ...['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
  ...['s3:AbortMultipartUpload', 's3:ListMultipartUploadParts'],
]

export function roles(rootAccessKeyId: string): object {
  const own = 'arn:aws:s3:::${aws:username}'
  const platform = ['tenon-payloads', READINESS_BUCKET].map((name) => `arn:aws:s3:::${name}`)
  const statements = [
    { Effect: 'Allow', Action: OBJECT_ACTIONS, Resource: [`${own}/*`] },
    { Effect: 'Allow', Action: ['s3:ListBucket', 's3:ListBucketMultipartUploads'], Resource: [own] },
    { Effect: 'Deny', Action: ['s3:*'], Resource: platform.flatMap((arn) => [arn, `${arn}/*`]) },
  ]
  const account = 'arn:aws:iam::000000000000'
  // SeaweedFS names the root identity after its access key.
  const root = `${account}:user/admin-${rootAccessKeyId.slice(0, 8)}`
  const trust = { Effect: 'Allow', Principal: { AWS: root }, Action: ['sts:AssumeRole'] }
  return {
    sts: { tokenDuration: '1h', maxSessionLength: '12h', issuer: 'tenon-sts' },
    policy: { defaultEffect: 'Deny', storeType: 'memory' },
    roles: [
      {
        roleName: 'tenon-workspace',
        roleArn: `${account}:role/tenon-workspace`,
        maxSessionDuration: 3_600,
        trustPolicy: { Version: '2012-10-17', Statement: [trust] },
        attachedPolicies: ['tenon-objects'],
      },
    ],
    policies: [{ name: 'tenon-objects', document: { Version: '2012-10-17', Statement: statements } }],
  }
}

async function takePorts(context: StartContext): Promise<Record<string, number>> {
  const ports: Record<string, number> = {}
  for (const role of ROLES) {
    const preferred = role === 's3' ? PREFERRED_S3_PORT : PREFERRED_INNER_PORT
    for (const [name, from] of [
      [`${role}.port`, preferred],
      [`${role}.port.grpc`, PREFERRED_INNER_PORT],
    ] as const) {
      ports[name] = await context.ports.take(`seaweedfs-${name}`, from, (port) => !isBlocked(port))
    }
  }
  return ports
}

/** Tells if another user owns a socket of this port in /tmp, which cannot be replaced. */
function isBlocked(port: number): boolean {
  return socketsOf(port).some((path) => {
    const owner = statSync(path, { throwIfNoEntry: false })?.uid
    return owner !== undefined && process.getuid?.() !== 0 && owner !== process.getuid?.()
  })
}

function socketsOf(port: number): string[] {
  const names = ROLES.flatMap((role) => [`${role}-${port}`, `${role}-grpc-${port}`])
  return names.map((name) => `/tmp/seaweedfs-${name}.sock`)
}

interface ProbeOptions {
  readonly abortSignal: AbortSignal
}

/** Runs one probe with a client of its own. @param limitMs after which it fails */
async function withS3<T>(
  identity: Identity,
  probe: (s3: S3Client, options: ProbeOptions) => Promise<T>,
  limitMs = PROBE_MS,
): Promise<T> {
  const s3 = new S3Client({
    endpoint: identity.endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    maxAttempts: 1,
    credentials: identity,
  })
  try {
    return await probe(s3, { abortSignal: AbortSignal.timeout(limitMs) })
  } finally {
    s3.destroy()
  }
}

/** Probes with a write: without a registered volume server, buckets can be created, but not written to. */
async function createAndWrite(s3: S3Client, options: ProbeOptions): Promise<void> {
  await s3.send(new CreateBucketCommand({ Bucket: READINESS_BUCKET }), options).catch((error: unknown) => {
    if (!(error instanceof BucketAlreadyExists || error instanceof BucketAlreadyOwnedByYou)) throw error
  })
  await write(s3, options)
}

/** As {@link write}; a store that refuses it, for example since its disk is full, is alive. */
async function answer(s3: S3Client, options: ProbeOptions): Promise<void> {
  await write(s3, options).catch((error: unknown) => {
    if (!(error instanceof S3ServiceException)) throw error
  })
}

/** Does not create the bucket, which could stop the master (infra/s3/buckets.ts). */
async function write(s3: S3Client, options: ProbeOptions): Promise<void> {
  await s3.send(new PutObjectCommand({ Bucket: READINESS_BUCKET, Key: 'ready', Body: 'x' }), options)
}

/** Probes an external server and returns its `server` header. */
async function listBuckets(s3: S3Client, options: ProbeOptions): Promise<string> {
  let software = ''
  s3.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args)
      const { headers } = result.response as { headers?: Record<string, string> }
      software = headers?.['server'] ?? ''
      return result
    },
    { step: 'deserialize' },
  )
  await s3.send(new ListBucketsCommand({}), options)
  return software
}

function environment(identity: Identity): Record<string, string> {
  return {
    S3_ENDPOINT: identity.endpoint,
    S3_ACCESS_KEY_ID: identity.accessKeyId,
    S3_SECRET_ACCESS_KEY: identity.secretAccessKey,
  }
}
