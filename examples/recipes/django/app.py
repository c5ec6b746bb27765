"""The shop of the recipes on Django, in one file."""

import json
import os
import socketserver
from urllib.parse import unquote, urlsplit
from wsgiref.simple_server import WSGIServer, make_server

import django
from django.conf import settings

database = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],  # the host of the sidecar's app.url: to any other Django answers 400, which cancels a task
    MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="not used",
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": database.hostname, "PORT": database.port, "NAME": database.path[1:],
        "USER": unquote(database.username), "PASSWORD": unquote(database.password or ""),
    }},
)
django.setup()

from django.core.wsgi import get_wsgi_application
from django.db import DatabaseError, connection, models, transaction
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST


class Order(models.Model):
    customer = models.TextField()
    cents = models.IntegerField()

    class Meta:
        app_label, db_table, managed = "shop", "orders", False


class Invoice(models.Model):
    number = models.BigAutoField(primary_key=True)
    order_id = models.BigIntegerField()
    cents = models.IntegerField()

    class Meta:
        app_label, db_table, managed = "shop", "invoices", False


@csrf_exempt
@require_POST
def take_order(request):
    """For people: the order and its task, both or neither."""
    body = json.loads(request.body)
    with transaction.atomic():
        order = Order.objects.create(customer=body["customer"], cents=body["cents"])
        with connection.cursor() as cursor:
            cursor.execute("select sched.enqueue('invoice', jsonb_build_object('order', %s::bigint))", [order.pk])
    return JsonResponse({"order": order.pk}, status=201)


@csrf_exempt  # a sidecar has no CSRF token
@require_POST
def write_invoice(request):
    """For the sidecar: the invoice and the end of the task, both or neither."""
    order = Order.objects.filter(pk=json.loads(request.body)["order"]).first()
    if order is None:
        return JsonResponse({"error": "no such order"}, status=410)  # trying again is pointless
    try:
        with transaction.atomic():
            invoice = Invoice.objects.create(order_id=order.pk, cents=order.cents)
            output = {"invoice": invoice.number}
            with connection.cursor() as cursor:
                cursor.execute("select sched.complete(%s::bigint, %s, %s::jsonb)",
                               [request.headers["Sched-Task-Id"], request.headers["Sched-Lease"], json.dumps(output)])
    except DatabaseError as error:
        if sqlstate(error) != "SC409":
            raise  # Django answers 500: try again
        return JsonResponse({"error": str(error)}, status=409)  # another attempt has the task, and ours left nothing behind
    return JsonResponse(output)


def sqlstate(error):
    """The code of a database error: psycopg 3 calls it sqlstate, psycopg2 pgcode."""
    return getattr(error.__cause__, "sqlstate", None) or getattr(error.__cause__, "pgcode", None)


urlpatterns = [path("orders", take_order), path("invoice", write_invoice)]


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """A server for an example; yours is gunicorn, uvicorn or the like."""


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", 8080)), get_wsgi_application(), server_class=Server).serve_forever()
