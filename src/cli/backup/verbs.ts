/** `tenon backup` and `tenon restore`: their options and descriptions. */

import type { Command } from 'commander'
import { addVerb, type Flag } from '../verb.ts'
import type { CreateOptions, FollowOptions, PruneOptions, VerifyOptions } from './create.ts'
import type { RepositoryOption } from './open.ts'
import type { FinishOptions, RestoreOptions } from './restore.ts'

const REPOSITORY: Flag = [
  '--repository <address>',
  'Folder of the repository, or s3://bucket/folder. Default: TENON_BACKUP_REPOSITORY.',
]
const JSON_FLAG: Flag = ['--json', 'Print the result as JSON.']

export function backupVerbs(program: Command): void {
  const backup = program
    .command('backup')
    .description(
      'Create and check backups of the installation. The commands need TENON_BACKUP_PASSPHRASE or TENON_BACKUP_PASSPHRASE_FILE.',
    )
  const load = () => import('./create.ts')
  addVerb(
    backup,
    'create',
    'Create a backup of everything: PostgreSQL, objects, Temporal, and the master key. The platform may run.',
    async (options: CreateOptions) => (await load()).create(options),
    [
      REPOSITORY,
      ['--incremental', 'Copy of PostgreSQL only what has changed since the latest backup.'],
      JSON_FLAG,
    ],
  )
  addVerb(
    backup,
    'follow',
    'Append to the latest backup until Ctrl-C, so that every time from then on can be restored.',
    async (options: FollowOptions) => (await load()).follow(options),
    [
      REPOSITORY,
      ['--every <duration>', 'Time between two moments: what can be lost at most.', '10s'],
      ['--json', 'Print each moment as JSON, one per line.'],
    ],
  )
  addVerb(
    backup,
    'list',
    'List the backups, and the times that can be restored.',
    async (options: RepositoryOption & { json?: true }) => (await load()).list(options),
    [REPOSITORY, JSON_FLAG],
  )
  addVerb(
    backup,
    'verify',
    'Restore a backup into a scratch folder, read back what it has, and remove it. The installation is not touched.',
    async (options: VerifyOptions) => (await load()).verify(options),
    [
      REPOSITORY,
      ['--to <time>', 'Time in UTC, such as 2026-11-29T14:30:00Z, or "latest".', 'latest'],
      JSON_FLAG,
    ],
  )
  addVerb(
    backup,
    'prune',
    'Remove backups that end before a time, and what only they need. The latest one stays.',
    async (options: PruneOptions) => (await load()).prune(options),
    [
      REPOSITORY,
      ['--older-than <duration>', 'Age of the oldest time that has to stay restorable.', '30d'],
      ['--dry-run', 'Print what would be removed, and remove nothing.'],
      JSON_FLAG,
    ],
  )
}

export function restoreVerbs(program: Command): void {
  const restore = addVerb(
    program,
    'restore',
    'Restore the installation of this folder to a time. The platform must be stopped.',
    async (options: RestoreOptions) => (await import('./restore.ts')).restore(options),
    [
      REPOSITORY,
      ['--to <time>', 'Time in UTC, such as 2026-11-29T14:30:00Z, or "latest".', 'latest'],
      ['--yes <installation>', 'Id of the installation whose data may be replaced.'],
      JSON_FLAG,
    ],
  )
  addVerb(
    restore,
    'finish',
    'Resume the triggers that a restore has paused, and remove the data that it has replaced. The platform must run.',
    async (options: FinishOptions) => (await import('./restore.ts')).finish(options),
    [JSON_FLAG],
  )
}
