# The shop of the recipes on Rails, in one file.
require "active_record/railtie"
require "action_controller/railtie"

class Shop < Rails::Application
  config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
  config.eager_load = true
  config.secret_key_base = "not used"
  config.logger = Logger.new($stderr, level: :warn)
  config.hosts << "127.0.0.1" # the host of the sidecar's app.url

  routes.append do
    post "/orders", to: "orders#create"
    post "/invoice", to: "invoices#create"
  end
end

class Order < ActiveRecord::Base; end

class Invoice < ActiveRecord::Base
  self.primary_key = "number"
end

class OrdersController < ActionController::API
  # For people: the order and its task, both or neither.
  def create
    order = Order.transaction do
      Order.create!(customer: params[:customer], cents: params[:cents]).tap do |created|
        Order.connection.exec_query("select sched.enqueue('invoice', jsonb_build_object('order', $1::bigint))", "enqueue", [created.id])
      end
    end
    render json: { order: order.id }, status: :created
  end
end

# ActionController::API, or a sidecar's request fails for want of a CSRF token.
class InvoicesController < ActionController::API
  # For the sidecar: the invoice and the end of the task, both or neither.
  def create
    order = Order.find_by(id: params[:order])
    return render json: { error: "no such order" }, status: :gone unless order # trying again is pointless

    output = Invoice.transaction do
      invoice = Invoice.create!(order_id: order.id, cents: order.cents)
      { invoice: invoice.number }.tap do |result|
        Invoice.connection.exec_query("select sched.complete($1::bigint, $2::text, $3::jsonb)", "complete",
          [request.headers["Sched-Task-Id"], request.headers["Sched-Lease"], result.to_json])
      end
    end
    render json: output
  rescue ActiveRecord::StatementInvalid => error
    raise unless sqlstate(error) == "SC409" # Rails answers 500: try again

    render json: { error: error.message }, status: :conflict # another attempt has the task, and ours left nothing behind
  end

  private

  def sqlstate(error)
    error.cause.result.error_field(PG::PG_DIAG_SQLSTATE) if error.cause.is_a?(PG::ServerError)
  end
end

Shop.initialize!
run Shop
