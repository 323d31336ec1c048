/** The checks of an installation, in the order in which `tenon doctor` prints them. */

import type { Config } from '../../infra/config.ts'
import type { MongoDocuments } from '../../infra/mongo/mongo.ts'
import type { StatementExecutor } from '../../infra/postgres/database.ts'
import { findIsolationFaults } from '../../infra/postgres/isolation.ts'
import { findSlowSearches, MAKE_OPERATORS } from '../../infra/postgres/search-operators.ts'
import type { ObjectClients } from '../../infra/s3/clients.ts'
import type { Temporal } from '../../infra/temporal/temporal.ts'
import type { Streams } from '../../infra/valkey/streams.ts'
import { functionsCheck } from './functions.ts'
import type { InstallationChecks } from './installation.ts'
import { documentsCheck, sessionsCheck, storageCheck, temporalCheck, valkeyCheck } from './servers.ts'
import type { StartCheck } from './start-check.ts'

/** The parts that the checks look at. */
export interface CheckTargets {
  readonly config: Config
  readonly database: StatementExecutor
  readonly installation: InstallationChecks
  readonly temporal: Temporal
  readonly streams: Streams
  readonly objectClients: ObjectClients
  readonly documents: MongoDocuments | undefined
}

export function openStartChecks(targets: CheckTargets): readonly StartCheck[] {
  const { config, database, installation, documents } = targets
  return [
    sessionsCheck(config),
    ...installation.required,
    isolationCheck(database),
    searchCheck(database),
    installation.clock,
    temporalCheck(targets.temporal),
    valkeyCheck(targets.streams),
    storageCheck(targets.objectClients, config.S3_IDENTITY),
    ...(documents === undefined ? [] : [documentsCheck(documents)]),
    functionsCheck(config.TENON_DENO_BIN),
  ]
}

const isolationCheck = (database: StatementExecutor): StartCheck => ({
  name: 'isolation',
  stops: ['api', 'worker'],
  run: async () => {
    const faults = await findIsolationFaults(database)
    return faults.length === 0
      ? { is: 'good', detail: 'no role can bypass row-level security, which every table forces' }
      : { is: 'wrong', detail: faults.join(' ') }
  },
})

const searchCheck = (database: StatementExecutor): StartCheck => ({
  name: 'search',
  stops: [],
  run: async () => {
    const { isMissing, collections } = await findSlowSearches(database)
    const declared = collections === 1 ? 'one collection' : `${collections} collections`
    if (isMissing) {
      const step = `A superuser of the database runs once: ${MAKE_OPERATORS}.`
      return collections === 0
        ? { is: 'good', detail: `no collection has a search; to search by an index: ${step}` }
        : { is: 'warning', detail: `${declared} are searched without an index. ${step} ${DECLARE_AGAIN}` }
    }
    return collections === 0
      ? { is: 'good', detail: 'row-level security lets searches use their indexes' }
      : {
          is: 'warning',
          detail: `${declared} were declared without the operators of searches. ${DECLARE_AGAIN}`,
        }
  },
})

const DECLARE_AGAIN = 'Then remove `search` and `arrays` from their declarations, and declare them again.'
