/** `npm run test:chart`: apart from the others, since it needs Go, PyPI and the minutes that building Helm takes. It needs no servers. */

import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/conformance/chart/*.proof.ts'],
    pool: 'forks',
    testTimeout: 600_000,
    hookTimeout: 2_400_000,
  },
})
