/** Runs the examples of references in docs/schemas.md and docs/queries.md in a shell, one after the other. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

/** The first block of a section. */
async function exampleOf(page: string, section: string): Promise<string> {
  const text = await readFile(page, 'utf8')
  const [, block = ''] =
    new RegExp(`\n## ${section}\n[\\s\\S]*?\`\`\`sh\n([\\s\\S]*?)\`\`\``).exec(text) ?? []
  return block
}

test('examples of references and of filters through them: find what the pages say', async () => {
  const declared = await exampleOf('docs/schemas.md', 'References')
  const queries = await exampleOf('docs/queries.md', 'Filters through references')
  const env = operatorEnv(await createTestWorkspace())
  const dir = await mkdtemp(join(tmpdir(), 'tenon-references-'))
  try {
    for (const [, file = '', json = ''] of declared.matchAll(/^cat > (\S+) <<'EOF'\n([\s\S]*?)^EOF\n/gm))
      await writeFile(join(dir, file), json)
    for (const [, verb = ''] of declared.matchAll(/npx tenon (schema apply \S+)/g)) {
      const applied = await runCommand(verb.split(' '), { env, callerDir: dir })
      expect([applied.code, applied.stderr]).toEqual([0, ''])
    }
    const requests = declared.slice(declared.indexOf('customer=$(')) + queries
    const script = requests.replaceAll(/\\\n\s*/g, ' ').replaceAll(/^(curl .*)$/gm, '$1\necho')
    const { stdout } = await promisify(execFile)('sh', ['-c', script], { env })
    const replies = stdout.split('\n').filter((line) => line.startsWith('{'))
    const [order, orders, customers, ofAnn, withOrder, without] = replies.map((line) => JSON.parse(line))
    expect(order).toMatchObject({ total: '9.90' })
    expect(orders.data).toMatchObject([{ id: order.id, _expand: { customer: { name: 'Ann' } } }])
    expect(customers.data).toMatchObject([{ name: 'Ann', _expand: { orders: { count: 1 } } }])
    expect(ofAnn.data).toMatchObject([{ id: order.id }])
    expect(withOrder.data).toMatchObject([{ name: 'Ann' }])
    expect(without.data).toMatchObject([{ name: 'Ann' }])
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
