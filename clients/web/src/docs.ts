/** /docs: the OpenAPI document by Swagger UI. It is bundled with the page, so that nothing need be fetched, with a token or
 * without. */

import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js';

declare const OPENAPI: object; // api/openapi.json, put in by build.mjs

SwaggerUI({
  spec: OPENAPI,
  dom_id: '#api',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
