/**
 * `npm run conformance:mcp -- [folder for the results]` runs the official suites, `npm run conformance:mcp -- clients` the clients of
 * others. Both need the package registries.
 */

if (process.argv[2] === 'clients') await import('./clients/main.ts')
else await import('./suites.ts')
