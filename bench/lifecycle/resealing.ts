/** Measures the reads of one tenant while 100,000 secrets of another are encrypted under a new master key. */

import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { rotateMasterKey } from '../../src/app/master-keys/rotate.ts'
import type { WorkspaceRef } from '../../src/core/tenant.ts'
import { secretPurpose } from '../../src/features/flows/secrets.ts'
import { purposeIn, Secrets } from '../../src/infra/crypto/secrets.ts'
import { Database } from '../../src/infra/postgres/database.ts'
import type { Started } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { sized } from '../measure.ts'
import { printReadsBeside } from './reader.ts'

const SECRETS = sized(100_000, 200)
const PAGE = 5_000

export async function resealing({ running }: Started): Promise<void> {
  const [reader, owner] = await Promise.all([createTestWorkspace(running), createTestWorkspace(running)])
  const old = randomBytes(32).toString('base64')
  await addSecrets(running.databaseUrl, owner, new Secrets(old))
  const database = Database.open(running.databaseUrl, () => {}, 2)
  let resealed = 0
  await printReadsBeside(
    reader,
    async () => {
      const rotation = await rotateMasterKey({ database, masterKeys: `${running.masterKey},${old}` })
      resealed = rotation.resealed
      if (!rotation.complete) throw new Error('Values are left under the old key.')
    },
    (seconds) => `${resealed} values encrypted in ${seconds} s`,
  )
  await database.close()
}

/** As if the key that they are under had been the first one until now. */
async function addSecrets(databaseUrl: string, owner: TestWorkspace, secrets: Secrets): Promise<void> {
  const { tenantId, workspaceId } = owner
  const ref = { tenantId, workspaceId } as WorkspaceRef
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  for (let from = 0; from < SECRETS; from += PAGE) {
    const names = Array.from({ length: Math.min(PAGE, SECRETS - from) }, (_, n) => `secret_${from + n}`)
    const sealed = names.map((name) =>
      secrets.seal(purposeIn(ref, secretPurpose(name)), Buffer.from('"a value of some characters"')),
    )
    await client.query(
      `insert into tenon.flow_secrets (tenant_id, workspace_id, name, sealed, updated_by)
       select $1, $2, name, sealed, 'bench' from unnest($3::text[], $4::bytea[]) as t(name, sealed)`,
      [tenantId, workspaceId, names, sealed],
    )
  }
  await client.end()
}
