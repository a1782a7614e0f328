/** The little of it that is used: the package has no types of its own. */
declare module 'swagger-ui-dist/swagger-ui-es-bundle.js' {
  export default function SwaggerUI(settings: {
    spec: object;
    dom_id: string;
    deepLinking: boolean;
    defaultModelsExpandDepth: number;
    validatorUrl: null;
  }): unknown;
}
