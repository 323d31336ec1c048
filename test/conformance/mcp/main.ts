/**
 * `npm run conformance:mcp -- [folder for the results]` runs the official suites, `-- clients` the SDKs and programs of others, `-- hosts`
 * the requests that hosts of agents send. The first two need the package registries.
 */

const [, , what] = process.argv
if (what === 'clients' || what === 'hosts') await import('./clients/main.ts')
else await import('./suites.ts')
