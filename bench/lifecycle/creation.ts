/** Measures the creation of a tenant with a workspace beside bare workflows of as many activities and the same requests to the object store. */

import { randomBytes } from 'node:crypto'
import type { Started } from '../../test/support/stack/start.ts'
import { openBareCreation } from '../bare-creation.ts'
import { createTestWorkspace } from '../fixture.ts'
import { interleaved, print } from '../measure.ts'

const ROUNDS = 40

export async function creation({ running }: Started): Promise<void> {
  const { admin } = await createTestWorkspace(running)
  const bare = await openBareCreation(running)
  const create = async () => {
    const slug = `bench-${randomBytes(6).toString('hex')}`
    const tenant = await admin.post<{ id: string }>('/v1/tenants', { name: 'Bench', slug }, 30)
    await admin.post('/v1/workspaces', { tenant_id: tenant.id, name: 'Bench', slug }, 30)
  }
  const figures = await interleaved(ROUNDS, { bare: () => bare.run(true), tenant: create })
  await bare.close()
  print('', 'p50 ms', 'p99 ms', '× bare')
  print('bare', figures.bare.p50Ms, figures.bare.p99Ms, 1)
  const ratio = figures.tenant.p50Ms / figures.bare.p50Ms
  print('tenant with workspace', figures.tenant.p50Ms, figures.tenant.p99Ms, ratio)
}
