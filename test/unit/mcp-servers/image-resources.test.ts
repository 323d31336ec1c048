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
  expect(dockerfile).toContain('COPY docs ./docs\n')
  // Folders of docs are removed when the site is built; these pages stand in none.
  expect(pages.filter((file) => file.split('/').length !== 2)).toEqual([])
  expect(ignored).not.toMatch(/^!?docs/m)
})
