/** Checks that the image contains the pages that the platform server offers as resources. */

import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { loadPlatformResources } from '../../../src/mcp/platform/platform-resources.ts'

test('pages of the documentation that are resources: are copied into the image', () => {
  const pages = loadPlatformResources()
    .list()
    .map(({ uri }) => `docs/${uri.split('/').at(-1)}.md`)
    .filter((file) => existsSync(file))
  expect(pages).toContain('docs/functions.md')
  const [dockerfile, ignored] = ['Dockerfile', '.dockerignore'].map((file) => readFileSync(file, 'utf8'))
  for (const file of pages) {
    expect(dockerfile).toContain(` ${file} `)
    expect(ignored?.split('\n')).toContain(`!${file}`)
  }
})
