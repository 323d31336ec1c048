/** The worker process: one worker per task queue, so that slow work of one kind cannot fill the slots of another. */

import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { DefaultLogger, NativeConnection, Runtime, Worker, type WorkerOptions } from '@temporalio/worker'
import { openPlatform } from '../app/platform.ts'
import { LIMITS } from '../core/limits.ts'
import { QUEUES } from '../core/work.ts'
import { ConfigError, parseConfig } from '../infra/config.ts'
import { openLog } from '../infra/log.ts'
import { openEagerStartServer } from './eager-start-server.ts'
import { createEventHandler, createRepair } from './flow/background-work.ts'
import { recordSink } from './flow/record-sink.ts'
import { HttpRequests } from './http/requests.ts'
import { createActivities } from './index.ts'
import { patchSdk } from './sdk-patches/index.ts'
import { Scopes, tenantInterceptor } from './tenant-interceptor.ts'
import { buildBundle } from './workflow-bundle.ts'

/** A file of the build that lies beside the worker's program (cli/stack/build.ts). */
const beside = (name: string) => fileURLToPath(new URL(name, import.meta.url))

async function main(): Promise<void> {
  const config = parseConfig(process.env)
  const log = openLog(config.LOG_LEVEL, 'worker')
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', (entry) => log.warn(entry.meta, entry.message)),
  })
  const { platform } = openPlatform(config, log, LIMITS.payloads.patienceMs)
  const connection = await NativeConnection.connect({
    address: config.TEMPORAL_ADDRESS,
    // What it carries is compressed and encrypted by then (infra/temporal/payload-codec.ts): nothing would become smaller.
    grpcCompression: { codec: 'none' },
  })
  const scopes = new Scopes(platform.access)
  const requests = new HttpRequests(scopes, platform.egress)
  const kept = config.TENON_MAX_CACHED_WORKFLOWS
  const shared: Omit<WorkerOptions, 'taskQueue'> = {
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    activities: createActivities(platform, { scopes, requests }),
    interceptors: { activity: [tenantInterceptor(log)] },
    dataConverter: {
      payloadCodecs: [platform.codec],
      payloadConverterPath: beside('payload-converter.mjs'),
      failureConverterPath: beside('failure-converter.mjs'),
    },
    shutdownGraceTime: '5s',
    shutdownForceTime: '8s',
    // A dead worker's runs are taken over after this; the default is 10 s.
    stickyQueueScheduleToStartTimeout: '3s',
    // By default the SDK sends at most one heartbeat per 0.8 of the timeout, so that a short stall counts as a lost worker.
    maxHeartbeatThrottleInterval: '3s',
    ...(kept !== undefined && { maxCachedWorkflows: kept }),
    // With no cache the SDK has room for one run; for the task of another it gives the one at work up, even while its local calls
    // go on, and then the task of that one is lost until it has run out.
    ...(kept === 0 && { maxConcurrentWorkflowTaskExecutions: 1 }),
  }
  patchSdk(config, log)
  const path = config.TENON_WORKFLOW_BUNDLE
  const workflowBundle = { code: path === undefined ? await buildBundle() : await readFile(path, 'utf8') }
  const workers = await Promise.all([
    Worker.create({
      ...shared,
      workflowBundle,
      sinks: recordSink(platform.access, log),
      taskQueue: QUEUES.flows,
      maxConcurrentLocalActivityExecutions: LIMITS.localCallSlots,
    }),
    Worker.create({ ...shared, workflowBundle, taskQueue: QUEUES.provisioning }),
    Worker.create({ ...shared, taskQueue: QUEUES.calls }),
    Worker.create({
      ...shared,
      taskQueue: QUEUES.functions,
      maxConcurrentActivityTaskExecutions: availableParallelism() * LIMITS.functionSlotsPerCore,
    }),
    Worker.create({
      ...shared,
      taskQueue: QUEUES.indexes,
      maxConcurrentActivityTaskExecutions: LIMITS.indexBuildsAtOnce,
    }),
  ])
  const socket = config.TENON_EAGER_START_SOCKET
  const at = { connection, namespace: config.TEMPORAL_NAMESPACE }
  const nearStarts = socket && (await openEagerStartServer(socket, at))
  const end = async () => {
    if (nearStarts) await nearStarts.close()
    for (const worker of workers) worker.shutdown()
  }
  const stop = () => void end()
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  void platform.functions.warmUp()
  void platform.functions.layers().then((layers) => log.info(layers ?? {}, 'functions isolation'))
  platform.relay.start()
  platform.overdue.start(createRepair(platform.access))
  platform.watcher.start(createEventHandler(platform.access, log))
  log.info({ queues: Object.values(QUEUES) }, 'ready')
  await Promise.all(workers.map((worker) => worker.run()))
  await connection.close()
  await platform.close()
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${error instanceof ConfigError ? error.message : (error as Error).stack}\n`)
    process.exit(1)
  },
)
